// Numbers of JSON, many at a time: what the data of tensors is made of. Reading is exact: the float
// nearest to the decimal, ties to even, as strtof has it; 64-bit integers whole. Writing gives the
// shortest of 6 to 9 (17) digits that is read back as the same number. Beyond JSON's grammar the
// three words of Python's json are taken and written: NaN, Infinity, -Infinity.
//
// The process's locale is "C": programs that link this never set another.
#ifndef GW_JSON_NUMBER_H
#define GW_JSON_NUMBER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GW_JSON_NUMBER_BYTES_MAX 1024u // of one in a request
#define GW_JSON_NUMBER_TEXT_MAX  32u   // of one that is written, NUL included

// Each reads the number that begins at `at` and ends before `end`; NULL: there is none of its kind,
// or it does not fit. A float that is too large is an infinity, as in strtof.
const char *gw_json_f32(const char *at, const char *end, float *out);
const char *gw_json_f64(const char *at, const char *end, double *out);
// Sign and magnitude.
const char *gw_json_integer(const char *at, const char *end, bool *out_negative, uint64_t *out);
// Any number, for its grammar alone.
const char *gw_json_number_skip(const char *at, const char *end);

// Write at most GW_JSON_NUMBER_TEXT_MAX bytes, NUL included; return the length.
size_t gw_json_f32_text(float value, char *out);
size_t gw_json_f64_text(double value, char *out);
size_t gw_json_integer_text(bool negative, uint64_t value, char *out);

#endif
