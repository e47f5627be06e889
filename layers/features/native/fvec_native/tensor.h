/* String tensors: for each element a little-endian uint32 length, then that many bytes.
 *
 * Every length is checked against the end before it is used, in every pass: the memory may be shared
 * with another process and change in between.
 */
#ifndef FVEC_TENSOR_H
#define FVEC_TENSOR_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>

#define PREFIX_BYTES 4

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Cursor;

typedef struct {
    const unsigned char *start;
    Py_ssize_t length;
} Text;

/* As Py_NewRef, which Python 3.9 has not. */
static PyObject *
new_reference(PyObject *object)
{
    Py_INCREF(object);
    return object;
}

/* Returns 1 and the next element, 0 at the end, -1 with ValueError set when it is cut off. */
static int
next_element(Cursor *cursor, Text *text)
{
    const unsigned char *at = cursor->at;
    Py_ssize_t left = cursor->end - at;
    uint32_t size;

    if (left == 0) {
        return 0;
    }
    if (left < PREFIX_BYTES) {
        PyErr_SetString(PyExc_ValueError, "string tensor ends inside a length");
        return -1;
    }
    size = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 | (uint32_t)at[3] << 24;
    if ((uint64_t)size > (uint64_t)(left - PREFIX_BYTES)) {
        PyErr_SetString(PyExc_ValueError, "string tensor ends inside a string");
        return -1;
    }
    text->start = at + PREFIX_BYTES;
    text->length = (Py_ssize_t)size;
    cursor->at = text->start + size;
    return 1;
}

static Cursor
beginning(const Py_buffer *encoded)
{
    Cursor cursor = {encoded->buf, (const unsigned char *)encoded->buf + encoded->len};

    return cursor;
}

/* Returns the number of elements, -1 with an exception set when the tensor is malformed. */
static Py_ssize_t
count_elements(const Py_buffer *encoded)
{
    Cursor cursor = beginning(encoded);
    Py_ssize_t count = 0;
    Text text;
    int found;

    while ((found = next_element(&cursor, &text)) > 0) {
        count++;
    }
    return found < 0 ? -1 : count;
}

/* Reads an element that was counted before; -1 with an exception set where it is gone. */
static int
counted_element(Cursor *cursor, Text *text)
{
    int found = next_element(cursor, text);

    if (found == 0) {
        PyErr_SetString(PyExc_ValueError, "string tensor changed while it was read");
    }
    return found > 0 ? 0 : -1;
}

static int
is_ascii(Text text)
{
    unsigned char high = 0;
    Py_ssize_t i;

    for (i = 0; i < text.length; i++) {
        high |= text.start[i];
    }
    return high < 0x80;
}

static PyObject *
decoded(Text text, const char *errors)
{
    return PyUnicode_DecodeUTF8((const char *)text.start, text.length, errors);
}

/* What a pass over a tensor makes of one element: a new reference, or NULL with an exception. */
typedef PyObject *(*Make)(Text text, void *context);

/* Returns the list of what is made of each element; NULL with an exception set. */
static PyObject *
made_of_each(PyObject *source, Make make, void *context)
{
    Py_buffer encoded;
    Py_ssize_t count, i;
    PyObject *values = NULL;

    if (PyObject_GetBuffer(source, &encoded, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    count = count_elements(&encoded);
    if (count >= 0) {
        values = PyList_New(count);
    }
    if (values != NULL) {
        Cursor cursor = beginning(&encoded);

        for (i = 0; i < count; i++) {
            Text text;
            PyObject *value = NULL;

            if (counted_element(&cursor, &text) == 0) {
                value = make(text, context);
            }
            if (value == NULL) {
                Py_CLEAR(values);
                break;
            }
            PyList_SET_ITEM(values, i, value);
        }
    }
    PyBuffer_Release(&encoded);
    return values;
}

#endif
