// Commands about the audit log: showing its end, and following its chain. The table in
// cli_commands.c names them; one thread. Verifying hashes every entry again here, on the operator's
// machine, and compares with what the entry after it says of it: the gateway's word is not taken
// for it.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "signing/signing.h"

#include "base/clock.h"
#include "base/cursor.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#define TAIL_DEFAULT  20u
#define PAGE_ITEMS    500u
#define FOLLOW_MS     1000u
#define CHAIN_LABEL   "walle-audit-1"
#define TIMEOUT_S_MAX (30u * 86400)

static enum cli_exit get_page(const struct cli *cli, uint64_t after, uint64_t limit, json_t **out)
{
    char path[CLI_PATH_MAX];
    (void)snprintf(path, sizeof(path), "/api/v1/audit?after=%llu&limit=%llu",
                   (unsigned long long)after, (unsigned long long)limit);
    return cli_api_call(cli, "GET", path, NULL, out);
}

// ---- tail

// Which version a change of the kill list is about; of anything else that has one, whose task.
static void print_subject(const json_t *entry)
{
    const json_t *subject = json_object_get(entry, "after");

    subject = json_is_object(subject) ? subject : json_object_get(entry, "before");
    const char *task = cli_json_text(subject, "task", NULL);
    if (strncmp(cli_json_text(entry, "path", ""), "/api/v1/kills", 13) == 0 &&
        json_is_object(subject)) {
        printf(" of %s (%s %s)", cli_json_text(subject, "manifest", "?"),
               task != NULL ? task : "no task here", cli_json_text(subject, "version", ""));
    } else if (task != NULL) {
        printf(" of %s", task);
    }
}

static void print_entry(const struct cli *cli, const json_t *item)
{
    unsigned long long seq = (unsigned long long)cli_json_u64(item, "seq");
    const char *text = json_string_value(json_object_get(item, "entry")); // parsed, then shown
    json_t *entry = text != NULL ? json_loads(text, 0, NULL) : NULL;
    if (cli->json) {
        (void)json_dumpf(item, stdout, JSON_COMPACT); // a line each, for scripts
        putchar('\n');
    } else if (entry == NULL) {
        printf("%llu another tenant's\n", seq);
    } else {
        const json_t *actor = json_object_get(entry, "actor");
        const char *detail = cli_json_text(entry, "detail", NULL);
        const char *reason = cli_json_text(entry, "reason", NULL);
        printf("%llu %s %s (%s) %s %s", seq, cli_json_text(entry, "time", "?"),
               cli_json_text(actor, "name", "nobody known"), cli_json_text(actor, "role", "-"),
               cli_json_text(entry, "method", "?"), cli_json_text(entry, "path", "?"));
        print_subject(entry);
        printf(" %s %llu%s%s%s%s\n", cli_json_text(entry, "outcome", "?"),
               (unsigned long long)cli_json_u64(entry, "status"), detail != NULL ? ": " : "",
               detail != NULL ? detail : "", reason != NULL ? " because: " : "",
               reason != NULL ? reason : "");
    }
    json_decref(entry);
}

// Prints what lies behind *after, at most `limit`; *after moves on.
static enum cli_exit print_page(const struct cli *cli, uint64_t limit, uint64_t *after)
{
    json_t *page = NULL;
    size_t index;
    json_t *item;
    enum cli_exit code = get_page(cli, *after, limit, &page);

    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        print_entry(cli, item);
        *after = cli_json_u64(item, "seq");
    }
    json_decref(page);
    (void)fflush(stdout); // what fails is told at the end
    return code;
}

static enum cli_exit first_of_tail(const struct cli *cli, uint64_t limit, uint64_t *out_after)
{
    json_t *page = NULL;
    if (cli_given(cli, CLI_OPTION_AFTER)) {
        return cli_option_u64(cli, CLI_OPTION_AFTER, 0, UINT64_MAX, out_after);
    }
    enum cli_exit code = get_page(cli, 0, 1, &page);
    uint64_t head = cli_json_u64(json_object_get(page, "head"), "seq");
    *out_after = head > limit ? head - limit : 0;
    json_decref(page);
    return code;
}

enum cli_exit cli_audit_tail(struct cli *cli)
{
    uint64_t limit = 0;
    uint64_t after = 0;
    uint64_t timeout_s = 0;
    const struct cli_range range = {1, PAGE_ITEMS, TAIL_DEFAULT, NULL};
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_LIMIT, &range, &limit);

    if (code == CLI_EXIT_OK) {
        code = cli_option_u64(cli, CLI_OPTION_TIMEOUT, TIMEOUT_S_MAX, TIMEOUT_S_MAX, &timeout_s);
    }
    if (code == CLI_EXIT_OK) {
        code = first_of_tail(cli, limit, &after);
    }
    uint64_t end_us = base_clock_mono_us() + timeout_s * 1000000u;
    if (code == CLI_EXIT_OK) {
        code = print_page(cli, limit, &after);
    }
    while (code == CLI_EXIT_OK && cli_given(cli, CLI_OPTION_FOLLOW)) {
        const struct timespec pause = {.tv_sec = FOLLOW_MS / 1000,
                                       .tv_nsec = (long)(FOLLOW_MS % 1000) * 1000000};
        if (base_clock_mono_us() >= end_us) {
            return CLI_EXIT_TIMEOUT;
        }
        (void)nanosleep(&pause, NULL);
        code = print_page(cli, PAGE_ITEMS, &after);
    }
    return code;
}

// ---- verify

struct chain {
    uint64_t seq;
    struct wire_sha256 hash;
    uint64_t noted_seq; // --head; 0: none
    struct wire_sha256 noted;
};

static bool read_digest(const json_t *item, const char *key, struct wire_sha256 *out)
{
    return wire_sha256_parse(base_str_of(cli_json_text(item, key, "")), out) == BASE_OK;
}

// The hash the entry must have behind the one before it.
static bool link_hash(const struct chain *chain, const json_t *item, const struct wire_sha256 *text,
                      struct wire_sha256 *out)
{
    uint8_t bytes[sizeof(CHAIN_LABEL) + 10 + 2 * WIRE_SHA256_BYTES];
    struct base_writer writer;
    base_writer_init(&writer, bytes, sizeof(bytes));
    base_writer_bytes(&writer, CHAIN_LABEL, sizeof(CHAIN_LABEL) - 1);
    base_writer_u64(&writer, chain->seq + 1);
    base_writer_u16(&writer, (uint16_t)cli_json_u64(item, "tenant"));
    base_writer_bytes(&writer, chain->hash.bytes, WIRE_SHA256_BYTES);
    base_writer_bytes(&writer, text->bytes, WIRE_SHA256_BYTES);
    return signing_sha256(bytes, base_writer_size(&writer), out) == BASE_OK;
}

// Moves on by one entry. What is wrong with it, or NULL.
static const char *follow(struct chain *chain, const json_t *item)
{
    struct wire_sha256 told;
    struct wire_sha256 text;
    struct wire_sha256 own;
    const char *entry = json_string_value(json_object_get(item, "entry")); // as it is, to be hashed
    if (cli_json_u64(item, "seq") != chain->seq + 1) {
        return "an entry is missing before it";
    }
    if (!read_digest(item, "hash", &told) || !read_digest(item, "entry_sha256", &text)) {
        return "its hashes are malformed";
    }
    if (entry != NULL && (signing_sha256(entry, strlen(entry), &own) != BASE_OK ||
                          !wire_sha256_equal(&own, &text))) {
        return "its text has another hash";
    }
    if (!link_hash(chain, item, &text, &own) || !wire_sha256_equal(&own, &told)) {
        return "its hash does not follow from the one before it";
    }
    chain->seq++;
    chain->hash = told;
    if (chain->seq == chain->noted_seq && !wire_sha256_equal(&chain->hash, &chain->noted)) {
        return "it is not the entry that was noted (--head)";
    }
    return NULL;
}

static bool read_head(const char *text, struct chain *out)
{
    const char *colon = strchr(text, ':');
    if (colon == NULL) {
        return false;
    }
    struct base_str seq = {text, (size_t)(colon - text)};
    return base_str_u64(seq, &out->noted_seq) == BASE_OK && out->noted_seq > 0 &&
           wire_sha256_parse(base_str_of(colon + 1), &out->noted) == BASE_OK;
}

static enum cli_exit broken(const struct chain *chain, const char *what)
{
    return cli_fail(CLI_EXIT_FAILED, "the audit log is broken at entry %llu: %s",
                    (unsigned long long)chain->seq + 1, what);
}

// Follows one page; *out_more tells whether there is another.
static enum cli_exit verify_page(const struct cli *cli, struct chain *chain, bool *out_more)
{
    json_t *page = NULL;
    size_t index;
    json_t *item;
    const char *wrong = NULL;
    uint64_t before = chain->seq;
    enum cli_exit code = get_page(cli, chain->seq, PAGE_ITEMS, &page);

    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        wrong = follow(chain, item);
        if (wrong != NULL) {
            break;
        }
    }
    *out_more = json_is_integer(json_object_get(page, "next"));
    if (*out_more && wrong == NULL && chain->seq == before) {
        wrong = "the list goes on and does not have it";
    }
    const json_t *head = json_object_get(page, "head");
    struct wire_sha256 told;
    if (code == CLI_EXIT_OK && wrong == NULL && !*out_more &&
        cli_json_u64(head, "seq") == chain->seq && chain->seq > 0 &&
        (!read_digest(head, "hash", &told) || !wire_sha256_equal(&told, &chain->hash))) {
        wrong = "the head is another";
    }
    json_decref(page);
    return wrong != NULL ? broken(chain, wrong) : code;
}

enum cli_exit cli_audit_verify(struct cli *cli)
{
    struct chain chain = {0};
    bool more = true;
    char hex[WIRE_SHA256_HEX + 1];
    enum cli_exit code = CLI_EXIT_OK;

    if (cli_given(cli, CLI_OPTION_HEAD) && !read_head(cli->values[CLI_OPTION_HEAD], &chain)) {
        return cli_fail(CLI_EXIT_USAGE, "--head takes SEQ:HASH as audit verify prints it");
    }
    while (code == CLI_EXIT_OK && more) {
        code = verify_page(cli, &chain, &more);
    }
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (chain.seq < chain.noted_seq) {
        return broken(&chain, "the log ends before the entry that was noted (--head)");
    }
    wire_sha256_hex(&chain.hash, hex);
    if (cli->json) {
        return cli_show_take(
            CLI_EXIT_OK, json_pack("{s:I, s:s}", "entries", (json_int_t)chain.seq, "head", hex));
    }
    printf("%llu entries, unbroken; head %llu:%s\n", (unsigned long long)chain.seq,
           (unsigned long long)chain.seq, hex);
    return CLI_EXIT_OK;
}
