// Packs of bad releases, and the two bounds of a certificate. certify_main.c reads the pack before
// anything is played; certify_report.c asks for the bounds. A pack is short, and read as a whole:
// a line that is wrong is named.
#include "certify/certify.h"

#include "base/os/regular_file.h"
#include "model/bad_release.h"
#include "policy/stat/binomial.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES_MAX 510u // its end not counted
#define CONFIDENCE     0.95

// What goes wrong in the field: on everybody, on one sort of devices, seldom, late, slowly.
static const struct sim_certify_case standard[] = {
    {"crash", "all => crash @ 100%"},
    {"exception", "all => exception @ 20%"},
    {"one system", "os == \"android\" => exception @ 100%"},
    {"seldom", "all => exception @ 8%"},
    {"hang", "all => hang @ 30%"},
    {"wrong", "all => wrong @ 50%"},
};

static bool is_name(struct base_str name)
{
    bool good = name.size > 0 && name.size <= SIM_CERTIFY_NAME_MAX;
    for (size_t i = 0; i < name.size; i++) {
        good = good && (unsigned char)name.data[i] >= ' ' && name.data[i] != 0x7f;
    }
    return good;
}

static enum base_status add(struct sim_certify_pack *pack, struct base_str name,
                            struct base_str rule, struct base_error *error)
{
    static struct sim_bad_rule parsed; // large, and not kept
    struct base_error why = {0};
    if (pack->count == sizeof(pack->cases) / sizeof(pack->cases[0])) {
        return base_error_set(error, BASE_ERR_LIMIT, "more than %u rules", SIM_CERTIFY_RULES_MAX);
    }
    if (!is_name(name) || rule.size > SIM_CERTIFY_RULE_MAX) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "NAME: RULE is expected, a name of 1 to %u characters",
                              SIM_CERTIFY_NAME_MAX);
    }
    for (uint32_t i = 0; i < pack->count; i++) {
        if (base_str_equal(name, base_str_of(pack->cases[i].name))) {
            return base_error_set(error, BASE_ERR_INVALID, "'%s' is the %s", pack->cases[i].name,
                                  i == 0 ? "release without a rule" : "name of an earlier rule");
        }
    }
    if (sim_bad_rule_parse(rule, &parsed, &why) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "column %u of the rule: %s", why.column,
                              why.text);
    }
    struct sim_certify_case *to = &pack->cases[pack->count++];
    memcpy(to->name, name.data, name.size);
    memcpy(to->rule, rule.data, rule.size);
    return BASE_OK;
}

static struct base_str trimmed(struct base_str text)
{
    while (text.size > 0 && strchr(" \t\r\n", text.data[text.size - 1]) != NULL) {
        text.size--;
    }
    while (text.size > 0 && strchr(" \t", text.data[0]) != NULL) {
        text.data++;
        text.size--;
    }
    return text;
}

static enum base_status add_line(struct sim_certify_pack *pack, struct base_str line,
                                 struct base_error *error)
{
    if (line.size > LINE_BYTES_MAX) {
        return base_error_set(error, BASE_ERR_TOO_LARGE, "longer than %u bytes", LINE_BYTES_MAX);
    }
    if (memchr(line.data, '\0', line.size) != NULL) {
        return base_error_set(error, BASE_ERR_INVALID, "a NUL byte");
    }
    struct base_str text = trimmed(line);
    if (text.size == 0 || text.data[0] == '#') {
        return BASE_OK;
    }
    const char *colon = memchr(text.data, ':', text.size);
    size_t name = colon != NULL ? (size_t)(colon - text.data) : 0;
    return add(pack, trimmed((struct base_str){text.data, name}),
               trimmed((struct base_str){text.data + name + 1, text.size - name - 1}), error);
}

// The next line without its end, as far as there is room; its size is that of the whole. False: the
// file is at its end.
static bool read_line(FILE *file, char out[LINE_BYTES_MAX], size_t *out_size)
{
    size_t size = 0;
    int byte = getc(file);
    bool any = byte != EOF;
    for (; byte != EOF && byte != '\n' && size <= LINE_BYTES_MAX; byte = getc(file)) {
        if (size < LINE_BYTES_MAX) {
            out[size] = (char)byte;
        }
        size++;
    }
    *out_size = size;
    return any;
}

static enum base_status read_lines(FILE *file, const char *path, struct sim_certify_pack *out,
                                   struct base_error *error)
{
    char line[LINE_BYTES_MAX];
    size_t size = 0;
    for (uint32_t number = 1; read_line(file, line, &size); number++) {
        struct base_error why = {0};
        enum base_status status = add_line(out, (struct base_str){line, size}, &why);
        if (status != BASE_OK) {
            return base_error_set(error, status, "%.100s:%u: %s", path, number, why.text);
        }
    }
    if (ferror(file) != 0) {
        return base_error_set(error, BASE_ERR_IO, "%.100s: it cannot be read", path);
    }
    if (out->count == 1) {
        return base_error_set(error, BASE_ERR_INVALID, "%.100s: no rule in it", path);
    }
    return BASE_OK;
}

enum base_status sim_certify_pack_read(const char *path, struct sim_certify_pack *out,
                                       struct base_error *error)
{
    memset(out, 0, sizeof(*out));
    (void)snprintf(out->cases[0].name, sizeof(out->cases[0].name), "healthy");
    out->count = 1;
    if (path[0] == '\0') {
        memcpy(&out->cases[1], standard, sizeof(standard));
        out->count += sizeof(standard) / sizeof(standard[0]);
        return BASE_OK;
    }
    FILE *file = NULL;
    struct base_error why = {0};
    enum base_status status = base_regular_stream(path, &file, &why);
    if (status != BASE_OK) {
        return base_error_set(error, status, "--pack %s", why.text);
    }
    status = read_lines(file, path, out, error);
    (void)fclose(file);
    return status;
}

// The chance to be wrong that each of so many statements has.
static double wrong_each(uint32_t statements)
{
    return (1 - CONFIDENCE) / (statements > 0 ? statements : 1);
}

double sim_certify_share(uint32_t count, uint32_t statements)
{
    return count > 0 ? pow(wrong_each(statements), 1.0 / count) : 0;
}

double sim_certify_rate_bound(uint32_t seen, uint32_t count, uint32_t statements)
{
    return count > 0 ? pol_binomial_upper(seen, count, wrong_each(statements)) : 1;
}
