"""Pictures: opened once, upright, in RGB, or refused with a reason."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from PIL import ExifTags, Image, ImageFilter, ImageOps, UnidentifiedImageError

from ..errors import InputError, first_line

MAX_PIXELS = 64_000_000  # of one picture
MAX_TOTAL_PIXELS = 256_000_000  # of all pictures of one question
BLUR = 1 / 12  # radius of the Gaussian that hides a photograph or diagram, as a fraction of the longer side
# Formats that are decoded by Pillow itself: some others start external programs.
FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "MPO", "JPEG2000", "AVIF", "PPM", "TGA", "ICO")
_MASK_MODES = ("1", "L", "P", "I", "I;16")  # in which a pixel is one number
Picture = Image.Image | str | os.PathLike[str]


class ThinPictureError(InputError):
    """A picture is too narrow to be cut into patches."""


def open_image(picture: Picture | bytes, name: str = "", formats: Sequence[str] = FORMATS) -> Image.Image:
    """An RGB picture, upright, or an error that says what is wrong with the file. The only place that decodes one.

    Args:
        picture: a picture, the path of a file, or the bytes of one. Its size is checked before it is decoded.
        name: for messages; by default the path.
        formats: of files that are accepted.
    """
    if not isinstance(picture, Image.Image | bytes | str | os.PathLike):
        kind = type(picture).__name__
        raise InputError(
            f"a picture cannot be of type {kind}; give a file name, or make a picture of it: Image.fromarray(…)"
        )
    name = name or ("the picture" if isinstance(picture, Image.Image | bytes) else str(picture))
    with _refusing(name):
        if isinstance(picture, Image.Image):
            return picture if _is_ready(picture, name) else _rgb(picture, name)
        with Image.open(_file(picture, name), formats=_known(formats)) as opened:
            return _rgb(opened, name)


def image_size(picture: str | os.PathLike[str] | bytes, name: str, formats: Sequence[str] = FORMATS) -> tuple[int, int]:
    """Width and height of a file, or an error if it is none or too large; nothing is decoded."""
    with _refusing(name), Image.open(_file(picture, name), formats=_known(formats)) as opened:
        _check_size(opened, name)
        return opened.size


def open_mask(path: str | os.PathLike[str]) -> Image.Image:
    """A picture with one number for each pixel of a mask, as its file stores them: palettes and 16 bits are kept."""
    name = str(path)
    with _refusing(name), Image.open(_file(path, name), formats=_known(FORMATS)) as opened:
        _check_size(opened, name)
        return opened.copy() if opened.mode in _MASK_MODES else opened.convert("L")


@contextmanager
def _refusing(name: str) -> Iterator[None]:
    """Turn whatever a decoder raises into one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow's notes on odd metadata
            yield
    except InputError:
        raise
    except UnidentifiedImageError as error:
        raise InputError(f"{name[:200]} is not a picture in a known format; {_cure(name)}") from error
    except Exception as error:  # decoders raise many kinds of errors on a damaged file
        raise InputError(
            f"cannot read {name[:200]}: {first_line(error)}; save it as PNG or JPEG and try again"
        ) from error


def _cure(name: str) -> str:
    """What to do with a file that is not read."""
    if name.lower().endswith((".heic", ".heif")):
        return "export it as JPEG, or convert it: sips -s format jpeg IN --out OUT (Mac), heif-convert IN OUT (Linux)"
    return "save it as PNG or JPEG"


def open_images(pictures: Sequence[Picture | bytes]) -> tuple[Image.Image, ...]:
    """Several pictures; together they have to fit into memory."""
    opened: list[Image.Image] = []
    for picture in pictures:
        opened.append(open_image(picture))
        if sum(image.width * image.height for image in opened) > MAX_TOTAL_PIXELS:
            limit = MAX_TOTAL_PIXELS // 10**6
            raise InputError(f"the pictures have more than {limit} megapixels together; use fewer or smaller ones")
    return tuple(opened)


def _file(picture: str | os.PathLike[str] | bytes, name: str) -> io.BytesIO | Path:
    """What Pillow can open."""
    if isinstance(picture, bytes):
        return io.BytesIO(picture)
    if not os.path.exists(picture):
        if str(picture).lower().startswith(("http://", "https://")):
            raise InputError(f"{name[:200]} is an address, and VTrace downloads nothing; save the picture first")
        raise InputError(f"there is no picture at {name}")
    if os.path.isdir(picture):
        raise InputError(f"{name} is a folder; give a picture file")
    if not os.path.isfile(picture):
        raise InputError(f"{name} is a device or a pipe; save the picture as a file first")
    if os.path.getsize(picture) == 0:
        raise InputError(f"{name} is empty")
    return Path(picture)


def _known(formats: Sequence[str]) -> list[str]:
    """Those that this Pillow was built with."""
    Image.init()
    return [name for name in formats if name in Image.OPEN]


def _is_ready(image: Image.Image, name: str) -> bool:
    """Whether a picture is what `open_image` returns, so that opening it again costs nothing."""
    _check_size(image, name)
    plain = type(image) is Image.Image and image.mode == "RGB" and "transparency" not in image.info
    return plain and ExifTags.Base.Orientation not in image.getexif()


def _rgb(image: Image.Image, name: str) -> Image.Image:
    _check_size(image, name)
    frames = getattr(image, "n_frames", 1)
    if frames > 1 and image.format != "MPO":  # a camera's MPO holds one photograph, and previews of it
        raise InputError(f"{name} has {frames} frames, and a model sees one; save the frame that you mean as PNG")
    upright = ImageOps.exif_transpose(image)
    if upright.mode == "F":
        raise InputError(f"{name} has floating-point pixels of unknown range; save it as PNG or JPEG")
    if upright.mode.startswith("I"):  # 16 bits per pixel
        return upright.point(lambda value: value / 256).convert("L").convert("RGB")
    if upright.mode in ("RGBA", "LA", "PA") or "transparency" in upright.info:
        upright = upright.convert("RGBA")
        upright = Image.alpha_composite(Image.new("RGBA", upright.size, "white"), upright)
    return upright.convert("RGB")


def _check_size(image: Image.Image, name: str) -> None:
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise InputError(
            f"{name} has {width} x {height} pixels; the limit is {MAX_PIXELS // 10**6} megapixels, resize it"
        )
    if min(width, height) < 2 or max(width, height) > 199 * min(width, height):
        raise ThinPictureError(f"{name} is {width} x {height} pixels, too thin to be cut into patches; crop or pad it")


def blur(images: Sequence[Image.Image], radius: float = BLUR) -> list[Image.Image]:
    """Pictures blurred by a fraction of their longer side."""
    return [image.filter(ImageFilter.GaussianBlur(radius * max(image.size))) for image in images]
