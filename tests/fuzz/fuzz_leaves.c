// One byte, so many bytes of leaves, a record behind them. No crash; leaves that are accepted
// encode back to themselves; a record that may leave holds its bytes' worth at most, and outside of
// its texts nothing but what JSON needs.
#include "fuzz_target.h"

#include "base/check.h"
#include "wire/leaves/leaves_check.h"

#include <stdlib.h>
#include <string.h>

static void check_record(const uint8_t *record, size_t size)
{
    bool text = false;
    for (size_t i = 0; i < size; i++) {
        base_check(record[i] >= 0x20);
        if (text && record[i] == '\\') {
            i++;
        } else if (record[i] == '"') {
            text = !text;
        } else if (!text) {
            base_check(record[i] != 0 &&
                       strchr("{}[],:-+.eE0123456789truefalsn", record[i]) != NULL);
        }
    }
    base_check(!text);
}

static void ask(const struct wire_leaves *leaves, const uint8_t *bytes, size_t size,
                const struct wire_leaves_record *record)
{
    static uint8_t declaration_bytes[WIRE_DECLARATION_BYTES_MAX];
    struct wire_declaration declaration = {.result_upload = WIRE_DECLARATION_NO_UPLOAD};
    size_t declaration_size = 0;
    for (uint32_t i = 0; i < leaves->upload_count; i++) {
        declaration.uploads[declaration.upload_count++].name = leaves->uploads[i].name;
    }
    declaration.leaves = (struct base_str){(const char *)bytes, size};
    base_check(wire_declaration_encode(&declaration, declaration_bytes, sizeof(declaration_bytes),
                                       &declaration_size) == BASE_OK);
    const struct base_str declared = {(const char *)declaration_bytes, declaration_size};
    base_check(wire_leaves_declared(declared));
    for (uint32_t i = 0; i < leaves->upload_count; i++) {
        const struct wire_leaves_upload *upload = &leaves->uploads[i];
        if (wire_leaves_upload_check(declared, upload->name, record, NULL) == BASE_OK) {
            base_check(record->size <= upload->bytes_max);
            check_record(record->bytes, record->size);
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct wire_leaves leaves;
    uint8_t again[WIRE_LEAVES_BYTES_MAX];
    size_t again_size = 0;
    if (size == 0 || data[0] > size - 1) {
        return 0;
    }
    size_t leaves_size = data[0];
    if (wire_leaves_parse(data + 1, leaves_size, &leaves) != BASE_OK) {
        return 0;
    }
    base_check(wire_leaves_encode(&leaves, again, sizeof(again), &again_size) == BASE_OK);
    base_check(again_size == leaves_size && memcmp(again, data + 1, leaves_size) == 0);
    size_t record_size = size - 1 - leaves_size;
    uint8_t *exact = malloc(record_size + 1); // of its size but for a byte: what is read past shows
    base_check(exact != NULL);
    memcpy(exact, data + 1 + leaves_size, record_size);
    exact[record_size] = 0xff;
    const struct wire_leaves_record record = {WIRE_RECORD_JSON, exact, record_size};
    ask(&leaves, data + 1, leaves_size, &record);
    free(exact);
    return 0;
}
