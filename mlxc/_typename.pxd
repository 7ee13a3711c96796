# Names and class attributes of extension types, which Cython itself cannot set from module code.
# Called at import only, before anyone else can see the type.
from cpython.object cimport PyObject

cdef extern from *:
    """
    static int mlxc_name_type(PyObject* type, const char* name) {
      ((PyTypeObject*)type)->tp_name = name;
      if (((PyTypeObject*)type)->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        const char* dot = strrchr(name, '.');
        PyObject* text = PyUnicode_FromString(dot == NULL ? name : dot + 1);
        if (text == NULL) return -1;
        Py_INCREF(text);
        Py_XSETREF(((PyHeapTypeObject*)type)->ht_name, text);
        Py_XSETREF(((PyHeapTypeObject*)type)->ht_qualname, text);
      }
      return 0;
    }
    static int mlxc_set_type_attribute(PyObject* type, PyObject* name, PyObject* value) {
      PyTypeObject* t = (PyTypeObject*)type;
    #if PY_VERSION_HEX >= 0x030c0000
      PyObject* dict = PyType_GetDict(t);
      int failed = dict == NULL ? -1 : PyDict_SetItem(dict, name, value);
      Py_XDECREF(dict);
    #else
      int failed = PyDict_SetItem(t->tp_dict, name, value);
    #endif
      PyType_Modified(t);
      return failed;
    }
    static void mlxc_document_method(PyObject* type, const char* name, const char* text) {
      PyObject* method = PyObject_GetAttrString(type, name);
      if (method != NULL && Py_IS_TYPE(method, &PyMethodDescr_Type))
        ((PyMethodDescrObject*)method)->d_method->ml_doc = text;
      Py_XDECREF(method);
      PyErr_Clear();
    }
    static void mlxc_set_new(PyObject* type, PyObject* (*make)(PyObject*, PyObject*, PyObject*)) {
      ((PyTypeObject*)type)->tp_new = (newfunc)(void (*)(void))make;
    }
    """
    int name_type "mlxc_name_type"(object type, const char* name) except -1
    int set_type_attribute "mlxc_set_type_attribute"(object type, object name, object value) except -1
    void document_method "mlxc_document_method"(object type, const char* name, const char* text)  # texts must last
    void set_new "mlxc_set_new"(object type, PyObject* (*make)(PyObject*, PyObject*, PyObject*) except NULL)
