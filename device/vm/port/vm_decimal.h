// Numbers with a decimal point, to the nearest double and back: what MicroPython's own arithmetic
// is off by in the last place, and in many below 1e-307. base/text/real.h does it, which the
// program's locale has no say in. Included by the files that patch_sources.py
// changes, in the device's VM and in the compiler; nothing of MicroPython is used.
#ifndef DEV_VM_DECIMAL_H
#define DEV_VM_DECIMAL_H

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

// base/text/real.h, which lies outside what MicroPython's files see.
size_t base_real_print(double value, int digits, char *out);
double base_real_read(const char *text, const char **out_end);

#define DEV_VM_DECIMAL_EXACT  (UINT64_C(1) << 53) // whole numbers up to it are doubles
#define DEV_VM_DECIMAL_TEXT   32                  // bytes that hold any double
#define DEV_VM_DECIMAL_DIGITS 800                 // 767 decide; of the rest, whether all are 0
#define DEV_VM_DECIMAL_FAR    99999               // exponents beyond it are all the same

// digits * 10^power, both exact: rounded once.
static inline double dev_vm_decimal_short(uint64_t digits, int power)
{
    static const double tens[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,
                                  1e8,  1e9,  1e10, 1e11, 1e12, 1e13, 1e14, 1e15,
                                  1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
    return power < 0 ? (double)digits / tens[-power] : (double)digits * tens[power];
}

// Of a text that was looked at: digits with at most one point and with underscores, then perhaps e
// and an exponent.
static inline double dev_vm_decimal(const char *text, const char *end)
{
    char number[DEV_VM_DECIMAL_DIGITS + DEV_VM_DECIMAL_TEXT];
    size_t count = 0;
    int64_t power = 0;
    int64_t given = 0;
    bool is_fraction = false;
    bool has_more = false;
    for (; text < end && *text != 'e' && *text != 'E'; text++) {
        if (*text == '.' || *text == '_') {
            is_fraction = is_fraction || *text == '.';
        } else if (count == DEV_VM_DECIMAL_DIGITS) {
            has_more = has_more || *text != '0';
            power += is_fraction ? 0 : 1;
        } else {
            power -= is_fraction ? 1 : 0;
            number[count] = *text;
            count += count > 0 || *text != '0' ? 1 : 0;
        }
    }
    if (count == 0) {
        return 0;
    }
    if (has_more) {
        number[count++] = '1';
        power--;
    }
    bool is_small = end - text > 1 && text[1] == '-';
    for (; text < end; text++) {
        bool is_digit = *text >= '0' && *text <= '9' && given < INT32_MAX;
        given = is_digit ? given * 10 + (*text - '0') : given;
    }
    power += is_small ? -given : given;
    power = power > DEV_VM_DECIMAL_FAR ? DEV_VM_DECIMAL_FAR : power;
    power = power < -DEV_VM_DECIMAL_FAR ? -DEV_VM_DECIMAL_FAR : power;
    (void)snprintf(number + count, DEV_VM_DECIMAL_TEXT, "e%d", (int)power);
    const char *read = NULL;
    return base_real_read(number, &read);
}

// A text that is read as this finite value again; its length.
static inline size_t dev_vm_decimal_write(char text[DEV_VM_DECIMAL_TEXT], double value)
{
    return base_real_print(value, 17, text);
}

#endif
