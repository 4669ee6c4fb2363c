// The table of element types that infer/dtype/oip_dtype.h speaks of. The codecs call, and
// infer_check.c for the texts of its errors; on any thread. The first entry is the usual one, so a
// look from the front is short.
#include "infer/dtype/oip_dtype.h"

#include <stddef.h>

static const struct {
    enum eng_dtype dtype;
    struct base_str name;
} types[] = {
    {ENG_F32, {"FP32", 4}},   {ENG_I64, {"INT64", 5}},    {ENG_I32, {"INT32", 5}},
    {ENG_F64, {"FP64", 4}},   {ENG_F16, {"FP16", 4}},     {ENG_BF16, {"BF16", 4}},
    {ENG_BOOL, {"BOOL", 4}},  {ENG_U8, {"UINT8", 5}},     {ENG_U16, {"UINT16", 6}},
    {ENG_U32, {"UINT32", 6}}, {ENG_U64, {"UINT64", 6}},   {ENG_I8, {"INT8", 4}},
    {ENG_I16, {"INT16", 5}},  {ENG_STRING, {"BYTES", 5}},
};

enum eng_dtype gw_oip_dtype(struct base_str name)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (base_str_equal(types[i].name, name)) {
            return types[i].dtype;
        }
    }
    return ENG_UNDEFINED;
}

struct base_str gw_oip_dtype_name(enum eng_dtype dtype)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (types[i].dtype == dtype) {
            return types[i].name;
        }
    }
    return (struct base_str){"", 0};
}
