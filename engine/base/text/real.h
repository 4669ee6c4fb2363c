// Text of real numbers, with a point, whatever LC_NUMERIC the app around a library has set.
#ifndef BASE_REAL_H
#define BASE_REAL_H

#include <stddef.h>

#define BASE_REAL_DIGITS_MAX 17 // with so many every double is read back as it was
#define BASE_REAL_TEXT_MAX   32 // of one with so many digits, NUL included

// `value` in so many digits (1 to BASE_REAL_DIGITS_MAX) as printf's %g has it in the C locale;
// returns the length.
size_t base_real_print(double value, int digits, char out[BASE_REAL_TEXT_MAX]);
// As strtod reads it in the C locale; *out_end is behind what was read.
double base_real_read(const char *text, const char **out_end);

#endif
