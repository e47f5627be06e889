/* The image of a vocabulary: a dict of str to int as one block of memory, for any process to read.
 *
 * An image is not trusted: every offset is checked against its size before it is used.
 */
#ifndef FVEC_IMAGE_H
#define FVEC_IMAGE_H

#include "tensor.h"

#include <string.h>

#define MAGIC UINT64_C(0x3130434f56434556) /* read back otherwise on another byte order */
#define MULTIPLIER UINT64_C(0xD6E8FEB86659FD93)

/* Image: a header, then `slots` slots (a power of two, at most half of them used), then keys. */
typedef struct {
    uint64_t magic;
    uint64_t slots;
} Header;

typedef struct {
    uint64_t hash;
    uint64_t offset; /* of the key's UTF-8 from the start of the image; 0 in an unused slot */
    uint64_t length;
    int64_t value;
} Slot;

typedef struct {
    const unsigned char *start;
    uint64_t size;
    uint64_t slots;
} Image;

static uint64_t
word_at(const unsigned char *at)
{
    uint64_t word;

    memcpy(&word, at, sizeof word);
    return word;
}

/* Returns the last bytes of a text as one word: eight of them, or all of a shorter one. */
static uint64_t
last_word(Text text)
{
    uint32_t first, last;

    if (text.length >= 8) {
        return word_at(text.start + text.length - 8);
    }
    if (text.length >= 4) {
        memcpy(&first, text.start, sizeof first);
        memcpy(&last, text.start + text.length - 4, sizeof last);
        return (uint64_t)first << 32 | last;
    }
    if (text.length == 0) {
        return 0;
    }
    return (uint64_t)text.start[0] << 16 | (uint64_t)text.start[text.length / 2] << 8 |
           text.start[text.length - 1];
}

static uint64_t
hash_of(Text text)
{
    uint64_t hash = MULTIPLIER ^ (uint64_t)text.length;
    Py_ssize_t at;

    for (at = 0; at + 8 < text.length; at += 8) {
        hash = (hash ^ word_at(text.start + at)) * MULTIPLIER;
        hash ^= hash >> 32;
    }
    hash = (hash ^ last_word(text)) * MULTIPLIER;
    hash ^= hash >> 29;
    hash *= MULTIPLIER;
    return hash ^ hash >> 32;
}

/* Whether a key of the same length and hash has the same bytes. */
static int
equals(const unsigned char *key, Text text)
{
    Py_ssize_t at;

    if (text.length < 8) {
        Text other = {key, text.length};

        return last_word(other) == last_word(text); /* that is all of it up to 3 and from 4 to 7 */
    }
    for (at = 0; at + 8 < text.length; at += 8) {
        if (word_at(key + at) != word_at(text.start + at)) {
            return 0;
        }
    }
    return word_at(key + text.length - 8) == word_at(text.start + text.length - 8);
}

/* Whether the buffer begins as an image does, with its slots inside. */
static int
open_image(const Py_buffer *view, Image *image)
{
    Header header;

    if (view->len < (Py_ssize_t)sizeof header) {
        return 0;
    }
    memcpy(&header, view->buf, sizeof header);
    image->start = view->buf;
    image->size = (uint64_t)view->len;
    image->slots = header.slots;
    return header.magic == MAGIC && header.slots > 0 && (header.slots & (header.slots - 1)) == 0 &&
           header.slots <= (image->size - sizeof header) / sizeof(Slot);
}

/* Returns 1 and the value of a key, 0 where the vocabulary does not hold it. */
static int
find_text(const Image *image, Text text, int64_t *value)
{
    uint64_t hash = hash_of(text), step;

    for (step = 0; step < image->slots; step++) { /* a damaged image may have no unused slot */
        uint64_t n = (hash + step) & (image->slots - 1);
        Slot slot;

        memcpy(&slot, image->start + sizeof(Header) + n * sizeof slot, sizeof slot);
        if (slot.offset == 0) {
            return 0;
        }
        if (slot.hash == hash && slot.length == (uint64_t)text.length &&
            slot.offset <= image->size && slot.length <= image->size - slot.offset &&
            equals(image->start + slot.offset, text)) {
            *value = slot.value;
            return 1;
        }
    }
    return 0;
}

/* The same for bytes that are decoded first; -1 with an exception set where they cannot be.
 *
 * The keys are valid UTF-8, so bytes that equal one are that text whatever `errors` is, and others
 * that are valid are another text. */
static int
find_decoded(const Image *image, Text text, const char *errors, int64_t *value)
{
    PyObject *decoded_text;
    Text again;
    int found = find_text(image, text, value);

    if (found || is_ascii(text)) {
        return found;
    }
    decoded_text = decoded(text, errors);
    if (decoded_text == NULL) {
        return -1;
    }
    again.start = (const unsigned char *)PyUnicode_AsUTF8AndSize(decoded_text, &again.length);
    if (again.start != NULL) {
        found = find_text(image, again, value);
    }
    else {
        PyErr_Clear(); /* half of a surrogate pair: no key has one */
    }
    Py_DECREF(decoded_text);
    return found;
}

/* Opens an image for reading; -1 with an exception set where it is none. */
static int
get_image(PyObject *source, Py_buffer *view, Image *image)
{
    if (PyObject_GetBuffer(source, view, PyBUF_SIMPLE) < 0) {
        return -1;
    }
    if (!open_image(view, image)) {
        PyErr_SetString(PyExc_ValueError, "not the image of a vocabulary");
        PyBuffer_Release(view);
        return -1;
    }
    return 0;
}

/* Reads a pair of a dict; 0 where it is not str to int of 64 bits, -1 with an exception set. */
static int
read_pair(PyObject *key, PyObject *value, Text *text, int64_t *number)
{
    int overflow = 0;

    if (!PyUnicode_CheckExact(key) || !PyLong_CheckExact(value)) {
        return 0;
    }
    *number = PyLong_AsLongLongAndOverflow(value, &overflow);
    text->start = (const unsigned char *)PyUnicode_AsUTF8AndSize(key, &text->length);
    if (text->start == NULL && PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
        PyErr_Clear();
        return 0;
    }
    return text->start == NULL ? -1 : overflow == 0;
}

/* Returns the bytes that the keys take, -1 with an exception set, -2 for no vocabulary. */
static Py_ssize_t
key_bytes(PyObject *items)
{
    PyObject *key, *value;
    Py_ssize_t at = 0, total = 0;

    while (PyDict_Next(items, &at, &key, &value)) {
        int64_t number;
        Text text;
        int read = read_pair(key, value, &text, &number);

        if (read <= 0) {
            return read < 0 ? -1 : -2;
        }
        if (text.length > PY_SSIZE_T_MAX / 4 - total) {
            PyErr_NoMemory();
            return -1;
        }
        total += text.length;
    }
    return total;
}

static void
add_pair(unsigned char *image, uint64_t slots, Text text, int64_t value, uint64_t *end)
{
    Slot slot = {hash_of(text), *end, (uint64_t)text.length, value}, present;
    uint64_t n = slot.hash & (slots - 1);

    for (;; n = (n + 1) & (slots - 1)) {
        memcpy(&present, image + sizeof(Header) + n * sizeof slot, sizeof slot);
        if (present.offset == 0) {
            break;
        }
    }
    memcpy(image + sizeof(Header) + n * sizeof slot, &slot, sizeof slot);
    memcpy(image + *end, text.start, (size_t)text.length);
    *end += (uint64_t)text.length;
}

#endif
