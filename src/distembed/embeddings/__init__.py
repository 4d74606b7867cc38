"""Embeddings: estimators that turn each bag into one vector."""

from .hdd import HDDEmbedding

__all__ = ["HDDEmbedding"]
