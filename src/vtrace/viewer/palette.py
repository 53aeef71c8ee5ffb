"""The colour ramp that figures, pages and the viewer share."""

from __future__ import annotations

from typing import NamedTuple

from ..system.text_colours import INK


class Colour(NamedTuple):
    """Red, green and blue from 0 to 255."""

    red: int
    green: int
    blue: int


# Light to dark in even steps of lightness, from cream over orange to deep violet: ordered in greyscale and for every
# common form of colour blindness.
STOPS = ((255, 247, 227), (254, 217, 142), (251, 160, 82), (222, 87, 98), (157, 41, 122), (76, 18, 92))

# The same hues for dark mode, from dark to cream.
DARK_STOPS = ((30, 22, 36), (76, 24, 92), (152, 44, 120), (220, 88, 96), (251, 164, 86), (255, 240, 205))


def colour(strength: float) -> Colour:
    """Colour of a strength between 0 and 1."""
    place = min(max(strength, 0.0), 1.0) * (len(STOPS) - 1)
    index = min(int(place), len(STOPS) - 2)
    part = place - index
    return Colour(*(round(low + (high - low) * part) for low, high in zip(STOPS[index], STOPS[index + 1], strict=True)))


def css_colour(strength: float) -> str:
    """The same colour in CSS notation."""
    return f"rgb({','.join(map(str, colour(strength)))})"


def ink(strength: float) -> str:
    """Text colour that stays readable on `colour(strength)`."""
    return "#ffffff" if strength > 0.55 else INK
