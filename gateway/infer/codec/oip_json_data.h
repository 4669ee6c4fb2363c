// The `data` of one tensor in JSON: nested as its shape is, or flat.
#ifndef GW_OIP_JSON_DATA_H
#define GW_OIP_JSON_DATA_H

#include "infer/codec/json_in.h"
#include "infer/infer_call.h"

// Reads the array that is next into memory of the arena, for a tensor whose name and desc are
// filled. No more is taken than the text that is left has elements. False: the fault is in `in`;
// besides JSON's: INVALID: another number of elements, or nested otherwise; OVERFLOW: a number
// does not fit the type; TOO_LARGE; NOMEM.
bool gw_oip_json_data(struct gw_json_in *in, struct gw_infer_tensor *tensor);

// The text of a tensor's data, flat.
size_t gw_oip_json_data_bound(const struct gw_infer_tensor *tensor); // bytes, at most
char *gw_oip_json_data_write(const struct gw_infer_tensor *tensor, char *out);
// A text as JSON has it, quotes included: at most GW_JSON_TEXT_BOUND(size) bytes. What is no UTF-8
// goes as U+FFFD.
#define GW_JSON_TEXT_BOUND(size) (6 * (size_t)(size) + 2)
char *gw_oip_json_text_write(struct base_str text, char *out);

#endif
