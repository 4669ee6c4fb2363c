// .npy: a magic number, a Python dictionary as text, dense elements. Called by tensor_file.c, and
// by npz_file.c for each member of an archive; any thread, no state. The dictionary is searched for
// its three keys instead of parsed, in at most HEADER_BYTES_MAX bytes; what numpy.save does not
// write (other byte orders than little-endian, Fortran order, objects) is refused. Counts are
// checked against the bytes that are there before memory is asked for.
#include "model/npy_file.h"

#include "base/check.h"
#include "base/cursor.h"
#include "base/str.h"

#include <string.h>

#define HEADER_BYTES_MAX 4096u
#define HEADER_ALIGNMENT 64u

static const uint8_t magic[6] = {0x93, 'N', 'U', 'M', 'P', 'Y'};

static const struct {
    enum eng_dtype dtype;
    const char *text; // without the byte order
} codes[] = {
    {ENG_F32, "f4"}, {ENG_F64, "f8"},  {ENG_F16, "f2"}, {ENG_U8, "u1"},    {ENG_U16, "u2"},
    {ENG_U32, "u4"}, {ENG_U64, "u8"},  {ENG_I8, "i1"},  {ENG_I16, "i2"},   {ENG_I32, "i4"},
    {ENG_I64, "i8"}, {ENG_BOOL, "b1"}, {ENG_C64, "c8"}, {ENG_C128, "c16"},
};
#define CODE_COUNT (sizeof(codes) / sizeof(codes[0]))

// The text behind a key of the dictionary, up to the header's end; empty when the key is missing.
static struct base_str value_of(struct base_str header, const char *key)
{
    size_t size = strlen(key);
    for (size_t i = 0; i + size + 2 <= header.size; i++) {
        char quote = header.data[i];
        if ((quote != '\'' && quote != '"') || memcmp(header.data + i + 1, key, size) != 0 ||
            header.data[i + 1 + size] != quote) {
            continue;
        }
        size_t at = i + size + 2;
        while (at < header.size && (header.data[at] == ' ' || header.data[at] == ':')) {
            at++;
        }
        return (struct base_str){header.data + at, header.size - at};
    }
    return (struct base_str){NULL, 0};
}

static enum base_status parse_type(struct base_str text, enum eng_dtype *out)
{
    // A quoted text such as '<f4'; the byte order of one-byte types is '|'.
    if (text.size < 5 || (text.data[0] != '\'' && text.data[0] != '"')) {
        return BASE_ERR_UNSUPPORTED;
    }
    const char *end = memchr(text.data + 1, text.data[0], text.size - 1);
    if (end == NULL || (text.data[1] != '<' && text.data[1] != '|')) {
        return BASE_ERR_UNSUPPORTED;
    }
    base_assert(end - text.data >= 2); // the byte order is no quote
    struct base_str code = {text.data + 2, (size_t)(end - text.data) - 2};
    for (size_t i = 0; i < CODE_COUNT; i++) {
        if (base_str_equal(code, base_str_of(codes[i].text))) {
            *out = codes[i].dtype;
            return BASE_OK;
        }
    }
    return BASE_ERR_UNSUPPORTED;
}

// A tuple: "()", "(3,)", "(3, 4)".
static enum base_status parse_shape(struct base_str text, struct eng_desc *desc)
{
    desc->rank = 0;
    if (text.size < 2 || text.data[0] != '(') {
        return BASE_ERR_INVALID;
    }
    size_t at = 1;
    while (at < text.size && text.data[at] != ')') {
        size_t begin = at;
        while (at < text.size && text.data[at] >= '0' && text.data[at] <= '9') {
            at++;
        }
        if (at > begin) {
            if (desc->rank == ENG_RANK_MAX) {
                return BASE_ERR_UNSUPPORTED;
            }
            int64_t *dim = &desc->dims[desc->rank++];
            BASE_TRY(base_str_i64((struct base_str){text.data + begin, at - begin}, dim));
        } else if (text.data[at] == ',' || text.data[at] == ' ' || text.data[at] == 'L') {
            at++;
        } else {
            return BASE_ERR_INVALID;
        }
    }
    base_assert(at <= text.size && desc->rank <= ENG_RANK_MAX);
    return at < text.size ? BASE_OK : BASE_ERR_INVALID;
}

static enum base_status parse_header(struct base_str header, struct eng_desc *desc,
                                     struct base_error *error)
{
    enum base_status status = parse_type(value_of(header, "descr"), &desc->dtype);
    if (status != BASE_OK) {
        return base_error_set(error, status, "npy: element type is not supported");
    }
    status = parse_shape(value_of(header, "shape"), desc);
    if (status != BASE_OK) {
        return base_error_set(error, status, "npy: unreadable shape");
    }
    struct base_str order = value_of(header, "fortran_order");
    if (!base_str_starts(order, BASE_STR("False")) && desc->rank > 1) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "npy: Fortran order is not supported");
    }
    return BASE_OK;
}

enum base_status eng_npy_read(const uint8_t *bytes, size_t size, struct base_arena *arena,
                              struct eng_array *out_array, struct base_error *error)
{
    struct base_reader reader;
    base_reader_init(&reader, bytes, size);
    const uint8_t *start = base_reader_bytes(&reader, sizeof(magic));
    uint8_t major = base_reader_u8(&reader);
    (void)base_reader_u8(&reader);
    uint32_t header_size = major == 1 ? base_reader_u16(&reader) : base_reader_u32(&reader);
    if (start == NULL || memcmp(start, magic, sizeof(magic)) != 0 || major < 1 || major > 3 ||
        header_size > HEADER_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_INVALID, "not a npy file");
    }
    const uint8_t *header = base_reader_bytes(&reader, header_size);
    if (header == NULL) {
        return base_error_set(error, BASE_ERR_TRUNCATED, "npy: ends within its header");
    }
    struct eng_array array = {0};
    BASE_TRY(
        parse_header((struct base_str){(const char *)header, header_size}, &array.desc, error));
    int64_t count;
    enum base_status status = eng_desc_check(&array.desc, &count);
    if (status != BASE_OK) {
        return base_error_set(error, status, "npy: impossible shape");
    }
    base_assert(reader.status == BASE_OK);
    size_t data_size = eng_desc_bytes(&array.desc);
    if (data_size > base_reader_left(&reader)) {
        return base_error_set(error, BASE_ERR_TRUNCATED, "npy: ends before its elements do");
    }
    array.data = base_arena_copy(arena, base_reader_bytes(&reader, data_size), data_size);
    if (array.data == NULL) {
        return BASE_ERR_NOMEM;
    }
    if (array.desc.dtype == ENG_BOOL) {
        for (size_t i = 0; i < data_size; i++) {
            ((uint8_t *)array.data)[i] = ((uint8_t *)array.data)[i] != 0;
        }
    }
    *out_array = array;
    return BASE_OK;
}

static const char *code_of(enum eng_dtype dtype)
{
    for (size_t i = 0; i < CODE_COUNT; i++) {
        if (codes[i].dtype == dtype) {
            return codes[i].text;
        }
    }
    return NULL;
}

enum base_status eng_npy_write(struct base_buffer *out, const struct eng_array *array,
                               struct base_error *error)
{
    const char *code = code_of(array->desc.dtype);
    if (code == NULL) {
        return base_error_set(error, BASE_ERR_UNSUPPORTED, "NumPy files cannot hold %s",
                              eng_dtype_name(array->desc.dtype));
    }
    size_t begin = out->size;
    const uint8_t head[10] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 0, 0};
    BASE_TRY(base_buffer_add(out, head, sizeof(head)));
    char order = eng_dtype_bytes(array->desc.dtype) == 1 ? '|' : '<';
    BASE_TRY(base_buffer_printf(out, "{'descr': '%c%s', 'fortran_order': False, 'shape': (", order,
                                code));
    for (uint32_t d = 0; d < array->desc.rank; d++) {
        BASE_TRY(
            base_buffer_printf(out, d == 0 ? "%lld," : " %lld,", (long long)array->desc.dims[d]));
    }
    BASE_TRY(base_buffer_printf(out, "), }"));
    while ((out->size - begin + 1) % HEADER_ALIGNMENT != 0) {
        BASE_TRY(base_buffer_add(out, " ", 1));
    }
    BASE_TRY(base_buffer_add(out, "\n", 1));
    size_t header_size = out->size - begin - sizeof(head);
    base_assert((out->size - begin) % HEADER_ALIGNMENT == 0);
    base_assert(header_size <= UINT16_MAX); // ENG_RANK_MAX numbers are far from it
    out->data[begin + 8] = (uint8_t)header_size;
    out->data[begin + 9] = (uint8_t)(header_size >> 8);
    size_t data_size = eng_desc_bytes(&array->desc);
    return data_size == 0 ? BASE_OK : base_buffer_add(out, array->data, data_size);
}
