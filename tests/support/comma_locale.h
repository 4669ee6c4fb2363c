// Locales whose numbers have a comma, or a point of two bytes (support/comma.locale and
// wide.locale, made by the build), as the app around a library may have set.
#ifndef COMMA_LOCALE_H
#define COMMA_LOCALE_H

#include "test_kit.h"

#include <locale.h>

static inline void test_locale_set(const char *name, const char *point)
{
    assert_int_equal(setenv("LOCPATH", WALLE_TEST_LOCALES, 1), 0);
    assert_non_null(setlocale(LC_NUMERIC, name));
    assert_string_equal(localeconv()->decimal_point, point);
}

static inline void test_locale_with_a_comma(void)
{
    test_locale_set("comma", ",");
}

static inline void test_locale_with_a_wide_point(void)
{
    test_locale_set("wide", "\u066b");
}

#endif
