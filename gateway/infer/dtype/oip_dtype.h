// Names of element types in the Open Inference Protocol (v2). Pure; any thread.
#ifndef GW_OIP_DTYPE_H
#define GW_OIP_DTYPE_H

#include "base/str.h"
#include "engine/tensor.h"

// ENG_UNDEFINED: the protocol has no such name.
enum eng_dtype gw_oip_dtype(struct base_str name);
// "FP32"; empty for types that the protocol lacks.
struct base_str gw_oip_dtype_name(enum eng_dtype dtype);

#endif
