"""What folders of earlier versions mean, which lack fields of an experiment."""

import dataclasses

from fedjax_mos.lab.folders import as_json
from fedjax_mos.lab.setting import Setting

# They ran with what is the default now. Rounds they all have, and may be given more.
DEFAULTS = {
    field.name: as_json(field.default)
    for field in dataclasses.fields(Setting)
    if field.default is not dataclasses.MISSING and field.name != "rounds"
}
