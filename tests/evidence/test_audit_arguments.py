"""Arguments that the command `audit` rejects before it starts."""

import pytest

from cli import parser


@pytest.mark.parametrize(
    ("url", "node", "named"),
    [("foo", "http://127.0.0.1:1", "URL"), ("http://127.0.0.1:1", "bar", "--rpc")],
)
def test_an_unusable_address_leaves_no_file(tmp_path, monkeypatch, capsys, url, node, named):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("DATA_DIR", str(tmp_path / "data"))
    assert parser.main(["audit", url, "--rpc", node]) == 1
    assert capsys.readouterr().err == f"{named} must begin with http:// or https://\n"
    assert not list(tmp_path.rglob("audit-*"))
