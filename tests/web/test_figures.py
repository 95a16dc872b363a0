"""Number formatting: few visible digits, with the exact value next to them."""

import pytest

from web.site import figures


@pytest.mark.parametrize(
    "number, said",
    [
        ("18", "18.00"),
        ("1.23456", "1.235"),
        ("0.0982", "0.0982"),
        ("0.338123", "0.3381"),
        # Half of the last digit is rounded away from zero.
        ("-0.01455", "−0.0146"),
        ("1234567.8", "1,234,568"),
        # Rounding makes it one digit longer, but it keeps four.
        ("999.96", "1,000"),
        ("0.000005", "0.000005"),
        ("0.00234567", "0.00235"),
        ("0", "0"),
        ("-18446744073709551615", "−18,446,744,073,709,551,615"),
    ],
)
def test_a_number_has_four_significant_digits_and_a_real_minus(number, said):
    assert figures.write_number(number) == said


@pytest.mark.parametrize(
    "number, said",
    [
        ("0.00012345", "0.0001235"),
        ("0.00234567", "0.002346"),
        ("0.0099996", "0.01"),
        ("0.00000123456", "0.000001235"),
        ("0.0254", "0.0254"),
        ("18", "18.00"),
        ("0", "0"),
    ],
)
def test_a_price_has_four_significant_digits_at_any_size(number, said):
    assert figures.write_price(number) == said
    assert f">${said}<" in figures.usd(number) and f">{said}<" in figures.price(number)


@pytest.mark.parametrize("number, said", [("0.5", "+0.5000"), ("-0.5", "−0.5000"), ("0", "0")])
def test_a_sign_is_shown_on_request(number, said):
    assert figures.write_number(number, sign=True) == said


def test_amounts_in_a_column_have_equal_decimals():
    column = ["18.1", None, "-0.0982", "0"]
    places = figures.find_places(column)
    written = [figures.write_number(one, True, places) for one in column if one is not None]
    assert written == ["+18.10", "−0.10", "0.00"]
    # 0.25 is the largest: four places, as by itself.
    assert figures.find_places(["0.25", "0.001"]) == 4
    # One large amount doesn't round a neighbor's 0.6 to a whole SOL.
    places = figures.find_places(["250000", "0.6"])
    written = [figures.write_number(one, True, places) for one in ("250000", "0.6")]
    assert written == ["+250,000.00", "+0.60"]
    assert figures.find_places([]) == 4
    # With two places, a loss of a thousandth would look like nothing.
    assert figures.write_number("-0.001", True, 2) == "−0.001"


def test_whole_token_amounts_have_no_decimals():
    for amount, said in (("3102", "3,102"), ("18", "18"), ("879.50", "879.5")):
        assert figures.write_tokens(amount) == said
    assert figures.write_tokens("18", places=2) == "18.00"


@pytest.mark.parametrize(
    "share, said",
    [(0, "0%"), (0.004, "<1%"), (0.534, "53%"), (0.996, "99%"), (1, "100%")],
)
def test_a_share_is_a_whole_percent_and_reaches_0_or_100_only_exactly(share, said):
    assert figures.write_percent(share) == said


@pytest.mark.parametrize(
    "percentage, said", [(-4.13, "−4.1%"), ("12.34", "+12.3%"), (250, "+250%"), (0, "0.0%")]
)
def test_a_change_has_its_sign(percentage, said):
    assert figures.write_change(percentage) == said


def test_the_exact_value_is_next_to_the_short_one():
    assert figures.sol("-0.014576123", sign=True) == (
        '<data class="amount down" value="-0.014576123" title="−0.014576123 SOL">−0.0146 SOL</data>'
    )
    # 5,000 lamports are 0.000005 SOL, which is short enough that no title repeats it.
    assert figures.lamports("5000", unit=False) == (
        '<data class="amount" value="0.000005" title="0.000005 SOL">0.000005</data>'
    )
    assert figures.lamports("5000") == '<data class="amount" value="0.000005">0.000005 SOL</data>'
    assert figures.exact_sol("-1234500000001", sign=True) == "−1,234.500000001"


def test_an_unknown_value_is_a_dash_and_not_zero():
    unknown = (figures.sol, figures.lamports, figures.tokens, figures.usd, figures.percent)
    assert {write(None) for write in unknown} == {"–"}
    assert figures.change(None) == figures.whole(None) == "–"
