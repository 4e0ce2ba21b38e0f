"""Papers' tables and figures as cards: data that experiments are made from."""
