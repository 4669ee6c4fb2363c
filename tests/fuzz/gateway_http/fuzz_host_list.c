// Fuzz target of the names a gateway answers to: the first line is the setting, the second the
// authority of a request. Nothing is read past an end; whatever is let in is a name of the list, an
// address or localhost: never one with bytes that no host has.
#include "http/guard/host_list.h"

#include "base/check.h"
#include "fuzz_target.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const uint8_t *newline = size > 0 ? memchr(data, '\n', size) : NULL;
    size_t setting = newline != NULL ? (size_t)(newline - data) : size;
    char *text = calloc(1, setting + 1);
    struct gw_host_list *list = NULL;
    struct base_error error = {0};
    base_check(text != NULL);
    if (setting > 0) {
        memcpy(text, data, setting);
    }
    enum base_status status = gw_host_list_new(text, &list, &error);
    base_check(status == BASE_OK || error.text[0] != '\0');
    if (status == BASE_OK && newline != NULL) {
        struct base_str authority = {(const char *)newline + 1, size - setting - 1};
        bool any = strchr(text, '*') != NULL;
        if (gw_host_list_allows(list, authority) && !any) {
            for (size_t i = 0; i < authority.size; i++) {
                unsigned char c = (unsigned char)authority.data[i];
                base_check(c > 0x20 && c < 0x7f && c != '@' && c != '/' && c != '"');
            }
        }
    }
    gw_host_list_unref(list);
    free(text);
    return 0;
}
