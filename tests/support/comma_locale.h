// A locale whose numbers have a comma (support/comma.locale, made by the build), as the app around
// a library may have set.
#ifndef COMMA_LOCALE_H
#define COMMA_LOCALE_H

#include "test_kit.h"

#include <locale.h>

static inline void test_locale_with_a_comma(void)
{
    assert_int_equal(setenv("LOCPATH", WALLE_TEST_LOCALES, 1), 0);
    assert_non_null(setlocale(LC_NUMERIC, "comma"));
    assert_string_equal(localeconv()->decimal_point, ",");
}

#endif
