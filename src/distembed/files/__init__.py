"""Model files: what a fitted model is on disk, without pickle."""

from ..compute.registry import storable as storable
from .archive import ModelFileError as ModelFileError
from .model_files import ModelInfo as ModelInfo
from .model_files import info as info
from .model_files import load, save

__all__ = ["load", "save"]
