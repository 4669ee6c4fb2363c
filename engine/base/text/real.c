// Numbers as the C locale has them. A library cannot choose its process's locale and may not change
// it, so what printf wrote is put right, and strtod is asked under the thread's own C locale.
// Called wherever text of real numbers leaves a device or comes to it, on any thread.
#include "base/text/real.h"

#include "base/check.h"

#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

size_t base_real_print(double value, int digits, char out[BASE_REAL_TEXT_MAX])
{
    char text[BASE_REAL_TEXT_MAX + 8]; // a locale's point has up to 4 bytes in UTF-8
    size_t size = 0;
    base_check(digits >= 1 && digits <= BASE_REAL_DIGITS_MAX);
    int length = snprintf(text, sizeof(text), "%.*g", digits, value);
    base_check(length > 0 && (size_t)length < sizeof(text));
    for (int i = 0; i < length; i++) {
        if (strchr("0123456789+-einfa", text[i]) != NULL) {
            out[size++] = text[i];
        } else if (size > 0 && out[size - 1] != '.') {
            out[size++] = '.';
        }
    }
    out[size] = '\0';
    return size;
}

double base_real_read(const char *text, const char **out_end)
{
    char *end = NULL;
    locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = plain != (locale_t)0 ? uselocale(plain) : (locale_t)0;
    double value = strtod(text, &end);
    if (plain != (locale_t)0) {
        (void)uselocale(before);
        freelocale(plain);
    }
    *out_end = end;
    return value;
}
