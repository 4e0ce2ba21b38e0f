"""What travels: channels between server and clients, with exact bits."""

from fedjax_mos.channels.identity import dense, identity

__all__ = ["dense", "identity"]
