"""What `ctx.reply`, `ctx.send` and `ctx.send_now` send beside texts, and what `ctx.ephemeral` takes."""

from .actors.content import Action, Content, Delete, Edit, Media, SendRef, Text

__all__ = ["Action", "Content", "Delete", "Edit", "Media", "SendRef", "Text"]
