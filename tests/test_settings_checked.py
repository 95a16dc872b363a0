"""`doctor` reports settings that have no effect or are unsafe."""

import pytest

import config
from operate import doctor

MODEL = {"LLM_BASE_URL": "http://127.0.0.1:11434/v1", "LLM_MODEL": "small"}


def examine(tmp_path, monkeypatch, **settings):
    """[(level, first word), ...] of what is said beside that the settings can be read."""
    monkeypatch.chdir(tmp_path)
    given = config.load({"DATA_DIR": str(tmp_path / "data"), **settings}, dotenv=None)
    said = list(doctor.check_settings(given))
    assert said.pop(0).level == "fine"
    return [(one.level, one.text.split()[0]) for one in said]


@pytest.mark.parametrize(
    "settings",
    [
        {},
        MODEL,
        {"BASE_URL": "https://bots.example", "TRUSTED_PROXIES": "1"},
        {"BASE_URL": "http://127.0.0.1:8000"},
        {"SECRET_KEY": "0" * 32},
    ],
)
def test_correct_settings_produce_no_finding(settings, tmp_path, monkeypatch):
    assert examine(tmp_path, monkeypatch, **settings) == []


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"LLM_BASE_URL": MODEL["LLM_BASE_URL"]}, ("look", "LLM_BASE_URL")),
        ({"LLM_MODEL": "small"}, ("look", "LLM_MODEL")),
        ({"BASE_URL": "http://bots.example"}, ("look", "BASE_URL")),
        ({"BASE_URL": "https://bots.example"}, ("look", "BASE_URL")),
        ({"SECRET_KEY": "0" * 31}, ("wrong", "SECRET_KEY")),
    ],
)
def test_an_ineffective_setting_is_named(settings, said, tmp_path, monkeypatch):
    assert examine(tmp_path, monkeypatch, **settings) == [said]


def test_an_env_file_readable_by_others_is_named(tmp_path, monkeypatch):
    env = tmp_path / ".env"
    env.write_text("LLM_API_KEY=k\n")
    env.chmod(0o644)
    assert examine(tmp_path, monkeypatch) == [("wrong", "other")]
    env.chmod(0o600)
    assert examine(tmp_path, monkeypatch) == []
