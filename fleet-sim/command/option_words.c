// Values of options, each checked where it stands. fleet_options.c calls these from its parser, on
// the main thread, once for each word of the command line. What is wrong with a word is said with
// the option's name and, in what has a grammar, with the column.
#include "command/option_words.h"

#include "base/os/gateway_note.h"
#include "base/os/private_file.h"
#include "base/os/regular_file.h"
#include "model/sim_url.h"
#include "policy/expr.h"
#include "policy/target_text.h"
#include "report/thresholds.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

error_t sim_option_refuse(struct sim_parse *parse, const char *option, const char *value,
                          const char *what)
{
    (void)base_error_set(parse->error, BASE_ERR_INVALID, "--%s %.60s: %s", option, value, what);
    return EINVAL;
}

error_t sim_take_text(struct sim_parse *parse, const char *option, const char *value,
                      char out[SIM_TEXT_MAX])
{
    if (strlen(value) >= SIM_TEXT_MAX) {
        return sim_option_refuse(parse, option, value, "too long");
    }
    (void)snprintf(out, SIM_TEXT_MAX, "%s", value);
    return 0;
}

error_t sim_take_number(struct sim_parse *parse, const char *option, const char *value,
                        struct sim_range range, uint64_t *out)
{
    char text[96];
    if (base_str_u64(base_str_of(value), out) != BASE_OK || *out < range.min || *out > range.max) {
        (void)snprintf(text, sizeof(text), "a number from %llu to %llu is expected",
                       (unsigned long long)range.min, (unsigned long long)range.max);
        return sim_option_refuse(parse, option, value, text);
    }
    return 0;
}

error_t sim_take_u32(struct sim_parse *parse, const char *option, const char *value,
                     struct sim_range range, uint32_t *out)
{
    uint64_t number = 0;
    error_t failed = sim_take_number(parse, option, value, range, &number);
    if (failed == 0) {
        *out = (uint32_t)number;
    }
    return failed;
}

error_t sim_take_share(struct sim_parse *parse, const char *option, const char *value,
                       uint32_t *out)
{
    return sim_ratio_parse(base_str_of(value), out) == BASE_OK
               ? 0
               : sim_option_refuse(parse, option, value, "a share is expected: 0.05 or 5%");
}

error_t sim_take_id(struct sim_parse *parse, const char *option, const char *value, uint64_t *out)
{
    return wire_device_parse(base_str_of(value), out) == BASE_OK
               ? 0
               : sim_option_refuse(parse, option, value, "16 hex digits are expected");
}

error_t sim_take_url(struct sim_parse *parse, const char *option, const char *value,
                     struct sim_url_place out)
{
    return sim_url_parse(base_str_of(value), out.host, out.port, out.tls) == BASE_OK
               ? 0
               : sim_option_refuse(parse, option, value,
                                   "http://HOST:PORT or https://HOST:PORT is expected");
}

error_t sim_take_rule(struct sim_parse *parse, const char *value)
{
    struct sim_bad_release *bad = &parse->out->bad;
    struct base_error inner = {.status = BASE_OK};
    if (bad->rule_count == SIM_BAD_RULES_MAX) {
        return sim_option_refuse(parse, "bad", value, "too many rules");
    }
    if (sim_bad_rule_parse(base_str_of(value), &bad->rules[bad->rule_count], &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--bad, column %u: %s", inner.column,
                             inner.text);
        return EINVAL;
    }
    parse->words.bad[bad->rule_count++] = value;
    return 0;
}

error_t sim_take_fault(struct sim_parse *parse, const char *value)
{
    struct base_error inner = {.status = BASE_OK};
    uint32_t number = parse->out->faults.rule_count;
    if (sim_fault_add(&parse->out->faults, base_str_of(value), &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--fault %.60s, column %u: %s", value,
                             inner.column, inner.text);
        return EINVAL;
    }
    parse->words.faults[number] = value;
    return 0;
}

error_t sim_take_act(struct sim_parse *parse, const char *value)
{
    struct sim_options *options = parse->out;
    struct base_error inner = {.status = BASE_OK};
    if (sim_act_add(&options->acts, &options->faults, base_str_of(value), &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--act '%.60s': %s", value,
                             inner.text);
        return EINVAL;
    }
    options->acted = true;
    return 0;
}

error_t sim_take_where(struct sim_parse *parse, const char *value)
{
    struct base_error inner = {.status = BASE_OK};
    if (sim_predicate_parse(base_str_of(value), &parse->out->where, &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--where, column %u: %s", inner.column,
                             inner.text);
        return EINVAL;
    }
    return 0;
}

error_t sim_take_target(struct sim_parse *parse, const char *value)
{
    struct sim_options *options = parse->out;
    struct pol_text text = {value, (uint32_t)strnlen(value, POL_EXPR_TEXT_MAX + 1)};
    struct pol_expr_error wrong = {0};
    size_t bytes = 0;
    free(options->target_program);
    options->target_program = NULL;
    options->target = NULL;
    if (text.size == 0) { // everybody
        options->target_text[0] = '\0';
        return 0;
    }
    if (pol_expr_compile(text, (struct pol_expr_space){NULL, 0}, &options->target, &bytes,
                         &wrong)) {
        options->target_program = malloc(bytes);
    }
    if (options->target_program == NULL ||
        !pol_expr_compile(text, (struct pol_expr_space){options->target_program, bytes},
                          &options->target, &bytes, &wrong)) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--target, line %u, column %u: %s",
                             wrong.line, wrong.column,
                             wrong.message != NULL ? wrong.message : "out of memory");
        return EINVAL;
    }
    const struct pol_target target = {.expr = options->target};
    return pol_target_text(&target, options->target_text, sizeof(options->target_text), &bytes)
               ? 0
               : sim_option_refuse(parse, "target", value, "too long");
}

error_t sim_take_rate(struct sim_parse *parse, const char *value)
{
    char *end = NULL;
    double rate = strtod(value, &end);
    if (end == value || *end != 0 || !(rate > 0) || rate > 1e7) {
        return sim_option_refuse(parse, "arrival-rate", value, "devices a second, above 0");
    }
    parse->out->arrival_rate = rate;
    return 0;
}

error_t sim_take_arrivals(struct sim_parse *parse, const char *value)
{
    if (strlen(value) >= SIM_SHAPE_MAX) {
        return sim_option_refuse(parse, "arrivals", value, "too long: a trace is a file");
    }
    (void)snprintf(parse->out->arrivals_shape, SIM_SHAPE_MAX, "%s", value);
    return 0;
}

error_t sim_take_links(struct sim_parse *parse, const char *value)
{
    bool network = strcmp(value, "network") == 0;
    if (!network && strcmp(value, "constant") != 0) {
        return sim_option_refuse(parse, "links", value, "constant or network is expected");
    }
    parse->out->network_links = network;
    return 0;
}

error_t sim_take_presence(struct sim_parse *parse, const char *value)
{
    static const char day[] = "day:";
    uint64_t hour = 0;
    bool always = strcmp(value, "always") == 0;
    if (!always && (strncmp(value, day, sizeof(day) - 1) != 0 ||
                    base_str_u64(base_str_of(value + sizeof(day) - 1), &hour) != BASE_OK ||
                    hour >= SIM_DAY_HOURS)) {
        return sim_option_refuse(parse, "presence", value,
                                 "always or day:H is expected, H from 0 to 23");
    }
    parse->out->presence = !always;
    parse->out->presence_hour = (uint32_t)hour;
    return 0;
}

error_t sim_take_business(struct sim_parse *parse, const char *value)
{
    char *end = NULL;
    double rate = strtod(value, &end);
    if (end == value || *end != 0 || !(rate >= SIM_BUSINESS_MIN && rate <= SIM_BUSINESS_MAX)) {
        return sim_option_refuse(parse, "business", value,
                                 "requests a minute of each device, 0.01 to 6000, are expected");
    }
    parse->out->business_rate = rate;
    return 0;
}

error_t sim_take_port(struct sim_parse *parse, const char *value)
{
    uint32_t port = 0;
    error_t failed =
        sim_take_u32(parse, "upstream", value, (struct sim_range){1, UINT16_MAX}, &port);
    parse->out->upstream_port = (uint16_t)port;
    return failed;
}

error_t sim_take_key(struct sim_parse *parse, const char *value)
{
    if (base_hex_decode(base_str_of(value), parse->out->trusted_key, WIRE_PUBLIC_KEY_BYTES) !=
        BASE_OK) {
        return sim_option_refuse(parse, "trust", value, "64 hex digits are expected");
    }
    parse->out->has_key = true;
    return 0;
}

error_t sim_take_root(struct sim_parse *parse, const char *path)
{
    struct sim_options *options = parse->out;
    struct wire_verifier verifier = dev_crypto_verifier(dev_crypto_openssl());
    struct wire_root root;
    struct base_error inner = {0};
    FILE *file = NULL;
    if (base_regular_stream(path, &file, &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--root %s", inner.text);
        return EINVAL;
    }
    size_t size = fread(options->root, 1, sizeof(options->root), file);
    bool whole = ferror(file) == 0 && fgetc(file) == EOF;
    (void)fclose(file);
    enum base_status status = BASE_ERR_TOO_LARGE;
    if (whole) {
        status = wire_root_open(options->root, size, &verifier, &root);
    }
    if (status != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--root %.60s: not a root: %s", path,
                             base_status_text(status));
        return EINVAL;
    }
    options->root_bytes = (uint32_t)size;
    parse->words.root = path;
    return 0;
}

// First word of the file.
error_t sim_take_token(struct sim_parse *parse, const char *option, const char *path, char *token)
{
    struct base_error inner = {.status = BASE_OK};
    if (base_private_line(path, false, token, SIM_TOKEN_TEXT_MAX, &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--%s: %s", option, inner.text);
        return EINVAL;
    }
    token[strcspn(token, " \t")] = '\0';
    if (token[0] == '\0') {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--%s: no token in %s", option, path);
        return EINVAL;
    }
    return 0;
}

// PORT, ADDRESS:PORT or [ADDRESS]:PORT. Without an address nobody reaches it from outside.
error_t sim_take_metrics(struct sim_parse *parse, const char *value)
{
    struct sim_options *options = parse->out;
    const char *colon = strrchr(value, ':');
    const char *port = colon != NULL ? colon + 1 : value;
    bool framed = colon != NULL && value[0] == '[' && colon > value + 1 && colon[-1] == ']';
    char address[SIM_ADDRESS_MAX] = "127.0.0.1";
    struct in6_addr place;
    uint64_t number = 0;
    if (colon != NULL) {
        const char *from = value + (framed ? 1 : 0);
        int size = (int)(colon - from) - (framed ? 1 : 0);
        (void)snprintf(address, sizeof(address), "%.*s", size, from);
    }
    if (inet_pton(framed ? AF_INET6 : AF_INET, address, &place) != 1 ||
        base_str_u64(base_str_of(port), &number) != BASE_OK || number > UINT16_MAX) {
        return sim_option_refuse(parse, "metrics", value,
                                 "PORT, 127.0.0.1:PORT or [::1]:PORT is expected");
    }
    memcpy(options->metrics_address, address, sizeof(address));
    options->metrics_port = (uint16_t)number;
    return 0;
}

error_t sim_take_threshold(struct sim_parse *parse, const char *value)
{
    struct sim_options *options = parse->out;
    struct base_error inner = {.status = BASE_OK};
    if (options->threshold_count == SIM_THRESHOLDS_MAX) {
        return sim_option_refuse(parse, "threshold", value, "too many thresholds");
    }
    if (sim_threshold_parse(base_str_of(value), &options->thresholds[options->threshold_count],
                            &inner) != BASE_OK) {
        (void)base_error_set(parse->error, BASE_ERR_INVALID, "--threshold %.40s, column %u: %s",
                             value, inner.column, inner.text);
        return EINVAL;
    }
    options->threshold_count++;
    return 0;
}

error_t sim_take_bad_version(struct sim_parse *parse, const char *value)
{
    struct sim_options *options = parse->out;
    if (options->bad_version_count == SIM_BAD_VERSIONS_MAX) {
        return sim_option_refuse(parse, "bad-version", value, "too many");
    }
    return sim_take_text(parse, "bad-version", value,
                         options->bad_versions[options->bad_version_count++]);
}

// The device that is told of: its index, or its id, which has sixteen digits.
static error_t take_told(struct sim_parse *parse, const char *value, struct base_str device)
{
    struct sim_options *options = parse->out;
    options->told_by_id = device.size == WIRE_DEVICE_HEX;
    enum base_status status = options->told_by_id ? wire_device_parse(device, &options->told)
                                                  : base_str_u64(device, &options->told);
    options->tells = status == BASE_OK;
    return options->tells ? 0
                          : sim_option_refuse(parse, "trace", value,
                                              "device:N, its index in the population, or its id "
                                              "of 16 hex digits is expected");
}

error_t sim_take_trace(struct sim_parse *parse, const char *value)
{
    struct sim_options *options = parse->out;
    const char *colon = strchr(value, ':');
    uint64_t line = 0;
    uint64_t second = 0;
    if (strncmp(value, "device:", strlen("device:")) == 0) {
        return take_told(parse, value, base_str_of(colon + 1));
    }
    if (colon == NULL ||
        base_str_u64((struct base_str){value, (size_t)(colon - value)}, &line) != BASE_OK ||
        base_str_u64(base_str_of(colon + 1), &second) != BASE_OK || line > SIM_SHARDS_MAX ||
        second >= SIM_DIGEST_SECONDS_MAX) {
        return sim_option_refuse(parse, "trace", value, "SHARD:SECOND or device:N is expected");
    }
    options->traced = true;
    options->trace_line = (uint32_t)line;
    options->trace_second = (uint32_t)second;
    return 0;
}

void sim_take_command(int argc, char **argv, struct sim_options *out)
{
    size_t at = 0;
    for (int i = 0; i < argc && at < sizeof(out->command); i++) {
        const char *word = i == 0 ? "walle-fleet-sim" : argv[i];
        const char *quote = strpbrk(word, " \t&|<>*;()$#!\"\\") != NULL ? "'" : "";
        int size = snprintf(out->command + at, sizeof(out->command) - at, "%s%s%s%s",
                            i > 0 ? " " : "", quote, word, quote);
        at += size > 0 ? (size_t)size : 0;
    }
}

void sim_find_token(struct sim_options *options)
{
    struct base_gateway_found found;
    const struct base_gateway_target target = {.host = base_str_of(options->host),
                                               .port = options->port};
    char address[SIM_TEXT_MAX + 8];
    (void)snprintf(address, sizeof(address), "%s:%u", options->host, options->port);
    // A name may lead elsewhere than where the gateway is: an address does not.
    if (base_gateway_note_find(&target, &found, NULL) == BASE_OK &&
        strcmp(found.address, address) == 0 && strlen(found.token) < sizeof(options->token)) {
        memcpy(options->token, found.token, strlen(found.token) + 1);
    }
}
