// A line as `walle-device --events` reads it. No crash; what is refused says why; what is accepted
// has a kind and a page, texts that can be read, and no more attributes than an event may have.
#include "fuzz_target.h"

#include "base/check.h"
#include "base/hash.h"
#include "lines/event_lines.h"

#include <stdlib.h>
#include <string.h>

// Reads every byte, so that a sanitizer sees one that is not there.
static uint64_t read_all(struct base_str text)
{
    return base_hash64(text.data, text.size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct event_line *line = NULL;
    struct dev_recording recording;
    struct base_error error = {.status = BASE_OK};
    char *text = malloc(size > 0 ? size : 1); // so that a read past the end is seen
    base_check(text != NULL);
    memcpy(text, data, size);
    enum base_status status =
        event_line_parse((struct base_str){text, size}, &line, &recording, &error);
    memset(text, 0xff, size); // what was accepted does not point there
    free(text);
    if (status != BASE_OK) {
        base_check(error.status == status);
        base_check(error.text[0] != '\0');
        return 0;
    }
    uint64_t sum = read_all(recording.page) ^ read_all(recording.item) ^ read_all(recording.name);
    base_check(recording.kind >= DEV_EVENT_ENTER);
    base_check(recording.kind <= DEV_EVENT_CUSTOM);
    base_check((recording.kind == DEV_EVENT_CUSTOM) == (recording.name.size > 0));
    base_check(recording.page.size > 0);
    base_check(recording.attr_count <= DEV_EVENT_ATTRS_MAX);
    for (uint32_t i = 0; i < recording.attr_count; i++) {
        sum ^= read_all(recording.attrs[i].name);
    }
    event_line_free(line);
    return sum == 0 && size == 1 ? 1 : 0; // needs the sum
}
