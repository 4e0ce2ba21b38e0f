"""Where numbers come from, member by member."""

import pandas as pd

from fedjax_mos.lab import folders
from fedjax_mos.lab.papers.provenance import note, origin_of, provenance
from fedjax_mos.lab.result import Result
from tests.lab.tiny import TINY


def test_members_keep_their_own_sources(tmp_path):
    """A page under the commit of the last command, whatever ran its members."""
    one = origin_of("fedjax-mos reproduce x", TINY)
    other = one | {"commit": "abc"}
    for name, origins in {"a": [one, one], "b": [one, other], "c": []}.items():
        (tmp_path / "p" / name).mkdir(parents=True)
        folders.write_json(
            tmp_path / "p" / name / "config.json", folders.config(TINY, "run")
        )
        for origin in origins:
            note(tmp_path / "p" / name, origin)
    result = Result(TINY, pd.DataFrame({"seconds": [30.0, 60.0]}), {})
    lines = provenance(tmp_path, {"p": dict.fromkeys("abc", result)}, 6.0)
    assert "command: `fedjax-mos reproduce x` (p/a, p/b)" in lines
    assert "commit: abc (p/b)" in lines and "commit: not recorded (p/c)" in lines
    assert any(line.startswith("versions: fedjax_mos") for line in lines)
    assert any("3.0 min of rounds" in line for line in lines)
