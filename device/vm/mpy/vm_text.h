// Text that leaves the VM is UTF-8, whatever a script makes of its strings.
#ifndef DEV_VM_TEXT_H
#define DEV_VM_TEXT_H

#include "base/str.h"

// Shortest form, no surrogates, up to U+10FFFF (RFC 3629).
bool dev_text_valid(const uint8_t *text, size_t size);
// Puts '?' in the place of every byte that is not part of a valid character.
void dev_text_clean(char *text, size_t size);
// Copies text into a fixed field, cut to fit, cleaned and NUL-terminated.
void dev_text_set(char *field, size_t capacity, struct base_str text);
// The same for people: what is cut ends in "...". `capacity` above 3.
void dev_text_show(char *field, size_t capacity, struct base_str text);

#endif
