"""The options of data frames."""

from __future__ import annotations

import pytest

from mustela.frames.asking import Asking
from mustela.frames.errors import FrameOptionError
from mustela.frames.options import FrameOptions, options_of

GOOD = {"app": "shop", "store": "orders"}


@pytest.mark.parametrize(
    ("given", "said", "mended"),
    [
        ({"store": "orders"}, "neither app nor url", GOOD),
        ({**GOOD, "url": "http://x"}, "app and url are both", GOOD),
        ({"url": "x:80", "store": "s"}, "no address", {"url": "http://x:80", "store": "s"}),
        ({"app": "shop"}, "none is given", GOOD),
        ({**GOOD, "token": "t"}, "shown in plans", {**GOOD, "tokenFile": "/t"}),
        ({**GOOD, "path": "/x"}, "has no path", GOOD),
        ({**GOOD, "stores": "a"}, "no option stores", GOOD),
        ({**GOOD, "tokenFile": "a", "tokenEnv": "b"}, "one token", {**GOOD, "tokenEnv": "b"}),
        ({**GOOD, "epoch": "last"}, "epoch is not a whole", {**GOOD, "epoch": "120"}),
        ({**GOOD, "lifetime": "301"}, "from 1 to 300", {**GOOD, "lifetime": "120"}),
        ({**GOOD, "partitions": "0"}, "partitions is not", {**GOOD, "partitions": "120"}),
    ],
)
def test_a_wrong_option_is_refused_and_its_fix_helps(given, said, mended):
    """Each says what is wrong; what was given for a token is never repeated."""
    with pytest.raises(FrameOptionError, match=said) as caught:
        options_of(given)
    assert caught.value.fix
    assert options_of(mended).store


def test_names_of_options_are_the_same_in_upper_and_lower_case():
    """Spark gives them in lower case."""
    found = options_of({"APP": "a", "statedir": "/s", "Store": "o", "columns": "x, y,"})
    assert (found.state_dir, found.columns) == ("/s", ("x", "y"))


def test_a_token_is_read_where_it_is_needed(tmp_path, monkeypatch):
    """What is not there is named, not the token."""
    options = FrameOptions(url="http://127.0.0.1:1", store="s", token_env="MUSTELA_TEST_TOKEN")
    with pytest.raises(FrameOptionError, match="MUSTELA_TEST_TOKEN is not set"):
        Asking(options)
    monkeypatch.setenv("MUSTELA_TEST_TOKEN", "secret")
    Asking(options).close()
    gone = FrameOptions(url="http://127.0.0.1:1", store="s", token_file=str(tmp_path / "t"))
    with pytest.raises(FrameOptionError, match="cannot be read"):
        Asking(gone)
    (tmp_path / "t").write_text("secret\n")
    Asking(gone).close()


def test_an_application_that_is_not_here_is_named(tmp_path):
    """With where it was looked for, and what to do."""
    with pytest.raises(FrameOptionError, match="shop does not show itself") as caught:
        Asking(FrameOptions(app="shop", store="s", state_dir=str(tmp_path)))
    assert "url" in (caught.value.fix or "")
