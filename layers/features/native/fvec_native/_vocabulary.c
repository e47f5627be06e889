/* Look-ups of a string tensor's elements in a vocabulary, straight from the tensor's bytes. */
#include "image.h"
#include "tensor.h"

static int
has_arguments(Py_ssize_t given, Py_ssize_t wanted)
{
    if (given != wanted) {
        PyErr_Format(PyExc_TypeError, "takes %zd arguments, not %zd", wanted, given);
    }
    return given == wanted;
}

PyDoc_STRVAR(count_doc,
"count(encoded)\n--\n\n"
"Return the number of strings of a BYTES tensor, any contiguous buffer.\n\n"
"Raises ValueError when it ends inside a length or a string; so do all others here.");

static PyObject *
count(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer encoded;
    Py_ssize_t found;

    (void)module;
    if (!has_arguments(nargs, 1) || PyObject_GetBuffer(args[0], &encoded, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    found = count_elements(&encoded);
    PyBuffer_Release(&encoded);
    return found < 0 ? NULL : PyLong_FromSsize_t(found);
}

/* Whether the buffer is `count` object references, one after the other. */
static int
holds_objects(const Py_buffer *view, Py_ssize_t count)
{
    return view->format != NULL && strcmp(view->format, "O") == 0 &&
           view->itemsize == (Py_ssize_t)sizeof(PyObject *) &&
           view->len == count * (Py_ssize_t)sizeof(PyObject *);
}

/* Puts `count` bytes objects into slots that own a reference or are NULL; -1 on error. */
static int
fill_slots(const Py_buffer *encoded, PyObject **slots, Py_ssize_t count)
{
    Cursor cursor = beginning(encoded);
    Py_ssize_t i;

    for (i = 0; i < count; i++) {
        PyObject *value;
        Text text;

        if (counted_element(&cursor, &text) < 0) {
            return -1;
        }
        value = PyBytes_FromStringAndSize((const char *)text.start, text.length);
        if (value == NULL) {
            return -1;
        }
        Py_XSETREF(slots[i], value);
    }
    return 0;
}

PyDoc_STRVAR(fill_doc,
"fill(encoded, array)\n--\n\n"
"Put the strings of a BYTES tensor into an object array of as many elements, as bytes.\n\n"
"Raises TypeError when it is no contiguous array of objects of that size.");

static PyObject *
fill(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer encoded, view;
    Py_ssize_t elements;
    int failed = -1;

    (void)module;
    if (!has_arguments(nargs, 2) || PyObject_GetBuffer(args[0], &encoded, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    elements = count_elements(&encoded);
    if (elements >= 0 && PyObject_GetBuffer(args[1], &view,
                                            PyBUF_WRITABLE | PyBUF_FORMAT | PyBUF_C_CONTIGUOUS) == 0) {
        if (holds_objects(&view, elements)) {
            failed = fill_slots(&encoded, view.buf, elements);
        }
        else {
            PyErr_SetString(PyExc_TypeError, "not an array of as many objects");
        }
        PyBuffer_Release(&view);
    }
    PyBuffer_Release(&encoded);
    return failed ? NULL : new_reference(Py_None);
}

static PyObject *
make_text(Text text, void *errors)
{
    return decoded(text, errors);
}

PyDoc_STRVAR(texts_doc,
"texts(encoded, errors)\n--\n\n"
"Return the strings of a BYTES tensor as a list of str; raises as bytes.decode does.");

static PyObject *
texts(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    const char *errors;

    (void)module;
    if (!has_arguments(nargs, 2) || (errors = PyUnicode_AsUTF8(args[1])) == NULL) {
        return NULL;
    }
    return made_of_each(args[0], make_text, (void *)(uintptr_t)errors);
}

PyDoc_STRVAR(are_texts_doc,
"are_texts(encoded)\n--\n\n"
"Return whether every string of a BYTES tensor is UTF-8.");

static PyObject *
are_texts(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer encoded;
    Cursor cursor;
    Text text;
    int found;

    (void)module;
    if (!has_arguments(nargs, 1) || PyObject_GetBuffer(args[0], &encoded, PyBUF_SIMPLE) < 0) {
        return NULL;
    }
    cursor = beginning(&encoded);
    while ((found = next_element(&cursor, &text)) > 0) {
        PyObject *value = is_ascii(text) ? new_reference(Py_None) : decoded(text, "strict");

        if (value == NULL) {
            break;
        }
        Py_DECREF(value);
    }
    PyBuffer_Release(&encoded);
    if (found > 0 && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        return new_reference(Py_False);
    }
    return found != 0 ? NULL : new_reference(Py_True);
}

typedef struct {
    Image image;
    const char *errors;
    PyObject *otherwise; /* a borrowed reference */
} LookUp;

static PyObject *
make_value(Text text, void *context)
{
    const LookUp *look_up = context;
    int64_t value;
    int found = find_decoded(&look_up->image, text, look_up->errors, &value);

    if (found < 0) {
        return NULL;
    }
    return found ? PyLong_FromLongLong(value) : new_reference(look_up->otherwise);
}

PyDoc_STRVAR(look_up_doc,
"look_up(image, encoded, errors, default)\n--\n\n"
"Return [vocabulary.get(s.decode('utf-8', errors), default) for s in strings] as a list.\n\n"
"`image` is what build returned, `encoded` a BYTES tensor. Raises ValueError for no image.");

static PyObject *
look_up(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    LookUp context;
    Py_buffer view;
    PyObject *values;

    (void)module;
    if (!has_arguments(nargs, 4) || (context.errors = PyUnicode_AsUTF8(args[2])) == NULL ||
        get_image(args[0], &view, &context.image) < 0) {
        return NULL;
    }
    context.otherwise = args[3];
    values = made_of_each(args[1], make_value, &context);
    PyBuffer_Release(&view);
    return values;
}

PyDoc_STRVAR(find_doc,
"find(image, key)\n--\n\n"
"Return the value of a str in a vocabulary, None where it is not there.");

static PyObject *
find(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    Py_buffer view;
    Image image;
    Text text;
    int64_t value = 0;
    int found;

    (void)module;
    if (!has_arguments(nargs, 2)) {
        return NULL;
    }
    text.start = (const unsigned char *)PyUnicode_AsUTF8AndSize(args[1], &text.length);
    if (text.start == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_UnicodeEncodeError)) {
            return NULL;
        }
        PyErr_Clear(); /* half of a surrogate pair: no key has one */
        return new_reference(Py_None);
    }
    if (get_image(args[0], &view, &image) < 0) {
        return NULL;
    }
    found = find_text(&image, text, &value);
    PyBuffer_Release(&view);
    return found ? PyLong_FromLongLong(value) : new_reference(Py_None);
}

PyDoc_STRVAR(build_doc,
"build(items)\n--\n\n"
"Return the image of a dict as bytes, the same for the same items in the same order.\n\n"
"None for what is no dict of str (that UTF-8 can write) to int (of 64 bits), subclasses of these\n"
"included.");

static PyObject *
build(PyObject *module, PyObject *const *args, Py_ssize_t nargs)
{
    PyObject *image, *key, *value;
    Py_ssize_t text_bytes, at = 0;
    Header header = {MAGIC, 8};
    uint64_t end;

    (void)module;
    if (!has_arguments(nargs, 1)) {
        return NULL;
    }
    if (!PyDict_CheckExact(args[0]) || (text_bytes = key_bytes(args[0])) == -2) {
        return new_reference(Py_None);
    }
    while (header.slots < 2 * (uint64_t)PyDict_GET_SIZE(args[0])) {
        header.slots *= 2;
    }
    end = sizeof header + header.slots * sizeof(Slot);
    image = text_bytes < 0 ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)end + text_bytes);
    if (image == NULL) {
        return NULL;
    }
    memset(PyBytes_AS_STRING(image), 0, (size_t)end);
    memcpy(PyBytes_AS_STRING(image), &header, sizeof header);
    while (PyDict_Next(args[0], &at, &key, &value)) {
        int64_t number;
        Text text;

        if (read_pair(key, value, &text, &number) > 0) {
            add_pair((unsigned char *)PyBytes_AS_STRING(image), header.slots, text, number, &end);
        }
    }
    return image;
}

#define METHOD(name) \
    {#name, (PyCFunction)(void (*)(void))name, METH_FASTCALL, name##_doc}

static PyMethodDef methods[] = {
    METHOD(count), METHOD(fill), METHOD(texts), METHOD(are_texts),
    METHOD(look_up), METHOD(find), METHOD(build), {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module_definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "_vocabulary",
    .m_doc = "Look-ups straight from string tensors.",
    .m_size = 0,
    .m_methods = methods,
};

PyMODINIT_FUNC
PyInit__vocabulary(void)
{
    return PyModuleDef_Init(&module_definition);
}
