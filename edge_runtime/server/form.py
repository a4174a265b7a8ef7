"""A recording as it is posted: the file of a form, or a body that is the file."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from edge_runtime.errors import ProtocolError

T = TypeVar("T")

_PARTS = 64
_FIELD = 1 << 16
"""The most fields of a form, and bytes of each."""


async def received(
    request: web.Request, field: str | None, most: int, seconds: float
) -> tuple[bytes, dict[str, list[str]]]:
    """The file and the other fields of a form whose `field` is the file.

    Where `field` is None, the body is the file. At most `most` bytes are taken, with no pause
    longer than `seconds`. Raises `ProtocolError`: too_big (close 1009), bad_form, slow_client.
    """
    if (request.content_length or 0) > most + _PARTS * _FIELD:
        raise _too_big(most)
    try:
        if field is None:
            return await _body(request, most, seconds), {}
        return await _form(request, field, most, seconds)
    except asyncio.TimeoutError:
        raise ProtocolError(
            "slow_client", f"nothing came for {seconds:g} s", "Send the file in one go."
        ) from None
    except ProtocolError:
        raise
    except (ValueError, TypeError, AssertionError, RuntimeError, HttpProcessingError) as error:
        raise ProtocolError(
            "bad_form",
            f"the request is not a form that can be read: {type(error).__name__}",
            f'Send multipart/form-data with the recording as "{field}".',
        ) from None


async def _form(
    request: web.Request, field: str, most: int, seconds: float
) -> tuple[bytes, dict[str, list[str]]]:
    if not request.content_type.startswith("multipart/"):
        raise ValueError(request.content_type)
    reader = await request.multipart()
    data: bytes | None = None
    fields: dict[str, list[str]] = {}
    for _ in range(_PARTS):
        part = await _in_time(reader.next(), seconds)
        if part is None:
            break
        if not isinstance(part, BodyPartReader):
            raise TypeError("a form within a form")
        if part.name == field:
            data = await _part(part, most, seconds)
        else:
            value = await _part(part, _FIELD, seconds)
            fields.setdefault(part.name or "", []).append(value.decode())
    else:
        raise ValueError("too many fields")
    if data is None:
        raise ProtocolError(
            "missing_file", f"there is no {field!r}", f'Send the recording as "{field}".'
        )
    return data, fields


async def _part(part: BodyPartReader, most: int, seconds: float) -> bytes:
    chunks = bytearray()
    while chunk := await _in_time(part.read_chunk(1 << 16), seconds):
        chunks += chunk
        if len(chunks) > most:
            raise _too_big(most)
    return bytes(chunks)


async def _body(request: web.Request, most: int, seconds: float) -> bytes:
    chunks = bytearray()
    while chunk := await _in_time(request.content.readany(), seconds):
        chunks += chunk
        if len(chunks) > most:
            raise _too_big(most)
    return bytes(chunks)


async def _in_time(work: Awaitable[T], seconds: float) -> T:
    return await asyncio.wait_for(work, seconds)


def _too_big(most: int) -> ProtocolError:
    return ProtocolError(
        "too_big",
        f"the recording is larger than {most} bytes",
        "Send it compressed (FLAC, Ogg, MP3), or in parts.",
        1009,
    )
