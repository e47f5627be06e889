/* Reads a Triton string tensor (KServe v2 BYTES) in one native pass.
 *
 * Wire format: for each element a little-endian uint32 length, then that many bytes.
 *
 * Uses the CPython API and, for the result, the object array's own buffer: nothing here depends
 * on a version of numpy's headers. Every read is bounds-checked, in both passes, because the
 * memory may be shared with another process and change in between.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <stdint.h>
#include <string.h>

#define PREFIX_BYTES 4

typedef struct {
    const unsigned char *at;
    const unsigned char *end;
} Cursor;

/* Returns 1 and the next element, 0 at the end, -1 with ValueError set when it is cut off. */
static int
next_element(Cursor *cursor, const unsigned char **start, Py_ssize_t *length)
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
    *start = at + PREFIX_BYTES;
    *length = (Py_ssize_t)size;
    cursor->at = *start + size;
    return 1;
}

/* Returns the number of elements, -1 with an exception set when the tensor is malformed. */
static Py_ssize_t
count_elements(const Py_buffer *encoded)
{
    Cursor cursor = {encoded->buf, (const unsigned char *)encoded->buf + encoded->len};
    const unsigned char *start;
    Py_ssize_t length, count = 0;
    int found;

    while ((found = next_element(&cursor, &start, &length)) > 0) {
        count++;
    }
    return found < 0 ? -1 : count;
}

/* Puts `count` bytes objects into slots that own a reference or are NULL; -1 on error. */
static int
fill_slots(const Py_buffer *encoded, PyObject **slots, Py_ssize_t count)
{
    Cursor cursor = {encoded->buf, (const unsigned char *)encoded->buf + encoded->len};
    const unsigned char *start;
    Py_ssize_t length, i;

    for (i = 0; i < count; i++) {
        int found = next_element(&cursor, &start, &length);
        PyObject *value;

        if (found <= 0) {
            if (found == 0) {
                PyErr_SetString(PyExc_ValueError, "string tensor changed while it was read");
            }
            return -1;
        }
        value = PyBytes_FromStringAndSize((const char *)start, length);
        if (value == NULL) {
            return -1;
        }
        Py_XSETREF(slots[i], value);
    }
    return 0;
}

/* Whether the buffer is `count` object references, one after the other. */
static int
holds_objects(const Py_buffer *view, Py_ssize_t count)
{
    return view->format != NULL && strcmp(view->format, "O") == 0 &&
           view->itemsize == (Py_ssize_t)sizeof(PyObject *) &&
           view->len == count * (Py_ssize_t)sizeof(PyObject *);
}

/* Fills `array`, an object array of `count` elements; returns it or NULL, and owns it no more. */
static PyObject *
filled(PyObject *array, const Py_buffer *encoded, Py_ssize_t count)
{
    Py_buffer view;
    int failed;

    if (PyObject_GetBuffer(array, &view, PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) < 0) {
        Py_DECREF(array);
        return NULL;
    }
    if (holds_objects(&view, count)) {
        failed = fill_slots(encoded, (PyObject **)view.buf, count);
    }
    else {
        PyErr_SetString(PyExc_TypeError, "the array is not one of objects");
        failed = -1;
    }
    PyBuffer_Release(&view);
    if (failed) {
        Py_CLEAR(array);
    }
    return array;
}

PyDoc_STRVAR(deserialize_doc,
"deserialize(encoded, empty)\n--\n\n"
"Return the strings of a BYTES tensor as a one-dimensional object array of bytes.\n\n"
"`encoded` is any contiguous buffer; `empty(n)` makes an object array of n elements.\n"
"Raises ValueError when the buffer ends inside an element.");

static PyObject *
deserialize(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer encoded;
    Py_ssize_t count;
    PyObject *array = NULL;

    (void)module;
    if (nargs != 2) {
        PyErr_SetString(PyExc_TypeError, "deserialize takes two arguments");
        return NULL;
    }
    if (PyObject_GetBuffer(args[0], &encoded, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    count = count_elements(&encoded);
    if (count >= 0) {
        PyObject *size = PyLong_FromSsize_t(count);

        if (size != NULL) {
            array = PyObject_CallFunctionObjArgs(args[1], size, NULL);
            Py_DECREF(size);
        }
        if (array != NULL) {
            array = filled(array, &encoded, count);
        }
    }
    PyBuffer_Release(&encoded);
    return array;
}

static PyMethodDef methods[] = {
    {"deserialize", (PyCFunction)(void (*)(void))deserialize, METH_FASTCALL, deserialize_doc},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_bytes",
    .m_doc = "Reads string tensors in one native pass.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__bytes(void)
{
    return PyModuleDef_Init(&module_definition);
}
