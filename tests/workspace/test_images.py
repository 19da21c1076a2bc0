"""Images are checked and scaled for models."""

import base64
import io

import pytest
from PIL import Image

from pattern_acp.workspace.errors import ImageError
from pattern_acp.workspace.images import (
    EDGE,
    GIVEN_BYTES,
    SENT_BYTES,
    UNSCALED_EDGE,
    image_of,
    image_of_base64,
    preview_of,
    unscaled,
)


def drawn(image_format: str, size: tuple[int, int] = (8, 6), mode: str = "RGB") -> bytes:
    file = io.BytesIO()
    Image.new(mode, size, "red").save(file, image_format)
    return file.getvalue()


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "GIF", "WEBP"])
async def test_a_small_image_is_kept_byte_for_byte_and_its_type_is_read_from_it(image_format: str):
    data = drawn(image_format)
    part = await image_of(data, "a.bin")
    assert (part.media_type, part.name, part.width, part.height) == (f"image/{image_format.lower()}", "a.bin", 8, 6)
    assert base64.b64decode(part.data) == data


@pytest.mark.parametrize(("image_format", "mode"), [("PNG", "RGBA"), ("JPEG", "L"), ("GIF", "P"), ("WEBP", "RGB")])
async def test_a_large_image_is_scaled_to_what_models_look_at(image_format: str, mode: str):
    part = await image_of(drawn(image_format, (2 * EDGE, EDGE), mode))
    assert (part.width, part.height) == (EDGE, EDGE // 2)
    assert part.media_type == ("image/jpeg" if image_format == "JPEG" else "image/png")


async def test_an_image_that_is_heavy_for_its_pixels_is_sent_as_jpeg():
    noise = Image.merge("RGBA", [Image.effect_noise((1_200, 1_200), 100) for _ in range(4)])
    heavy = io.BytesIO()
    noise.save(heavy, "PNG")
    part = await image_of(heavy.getvalue())
    assert (part.media_type, part.width) == ("image/jpeg", 1_200)
    assert len(part.data) * 3 // 4 <= SENT_BYTES


async def test_a_photo_is_turned_as_its_camera_says():
    exif = Image.Exif()
    exif[0x0112] = 6
    file = io.BytesIO()
    Image.new("RGB", (2_000, 1_000)).save(file, "JPEG", exif=exif)
    part = await image_of(file.getvalue())
    assert part.width < part.height


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"%PDF-1.7", "The image x.png is not a PNG, JPEG, GIF or WebP image"),
        (drawn("PNG")[:40], "The image x.png is damaged"),
        (drawn("JPEG", (300, 300))[:-200], "The image x.png is damaged"),
        (drawn("PNG", (10_000, 9_000), "1"), "more than 80,000,000 pixels"),
        (drawn("PNG", (20_000, 10_000), "1"), "more than 80,000,000 pixels"),
        (b"\x89PNG\r\n\x1a\n" + bytes(GIVEN_BYTES), "at most 30,000,000"),
    ],
)
async def test_what_cannot_be_looked_at_is_refused_in_a_sentence(data: bytes, said: str):
    with pytest.raises(ImageError, match=said):
        await image_of(data, "x.png")


async def test_text_that_is_no_base64_is_refused():
    with pytest.raises(ImageError, match="The image is not valid base64"):
        await image_of_base64("né")
    with pytest.raises(ImageError, match="at most"):
        await image_of_base64("A" * (GIVEN_BYTES * 2))
    part = await image_of_base64("\n".join(base64.b64encode(drawn("PNG")).decode()))
    assert part.width == 8


async def test_a_preview_is_small():
    preview = await preview_of(await image_of(drawn("PNG", (1_500, 1_000), "RGBA")))
    assert (preview.media_type, preview.width, preview.height) == ("image/jpeg", 640, 427)


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "GIF", "WEBP"])
def test_an_image_that_is_not_decoded_has_the_size_that_its_head_states(image_format: str):
    data = drawn(image_format, (300, 7))
    part = unscaled(data, f"image/{image_format.lower()}", "a")
    assert (part.width, part.height, base64.b64decode(part.data)) == (300, 7, data)


@pytest.mark.parametrize(("lossless", "mode"), [(True, "RGB"), (True, "RGBA"), (False, "RGBA")])
def test_every_form_of_webp_states_its_size(lossless: bool, mode: str):
    file = io.BytesIO()
    Image.new(mode, (301, 9), (9, 9, 9, 90)[: len(mode)]).save(file, "WEBP", lossless=lossless)
    part = unscaled(file.getvalue(), "image/webp")
    assert (part.width, part.height) == (301, 9)


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "GIF", "WEBP"])
@pytest.mark.parametrize("length", [12, 29, 60, 200])
def test_an_image_that_is_cut_off_is_refused_without_decoding_it(image_format: str, length: int):
    noise = Image.effect_noise((64, 64), 100).convert("RGB")
    file = io.BytesIO()
    noise.save(file, image_format)
    with pytest.raises(ImageError, match="The image a is damaged"):
        unscaled(file.getvalue()[:length], f"image/{image_format.lower()}", "a")


def test_an_image_that_must_be_scaled_says_what_to_install():
    with pytest.raises(ImageError, match=r'2001 by 3 pixels .* pip install "pattern-acp\[images\]"\.'):
        unscaled(drawn("PNG", (UNSCALED_EDGE + 1, 3)), "image/png", "a")


def test_a_jpeg_without_a_frame_is_damaged():
    with pytest.raises(ImageError, match="damaged"):
        unscaled(b"\xff\xd8\x00\x00\x00\x04" + bytes(40) + b"\xff\xd9", "image/jpeg")
