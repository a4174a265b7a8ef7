"""What recipes are written in: records that refuse what they do not know, names, counts."""

from __future__ import annotations

from typing import Annotated

import msgspec

Name = Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9][a-z0-9.-]*$")]
Sha256 = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}$")]
# A bare file name: a recipe must not reach out of the folder it is given.
FileName = Annotated[str, msgspec.Meta(pattern=r"^[A-Za-z0-9_][A-Za-z0-9_.-]*$")]
FolderName = Annotated[str, msgspec.Meta(pattern=r"^([A-Za-z0-9_][A-Za-z0-9_.-]*(/(?!$)|$))*$")]
Positive = Annotated[int, msgspec.Meta(ge=1)]


class Record(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A table of a recipe."""
