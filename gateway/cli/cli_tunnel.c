// Commands about what came through the tunnel: tail, export, stat. One thread.
//
// An export goes on where it stopped (cli/export_file.h), and has each record once.
#include "cli/base/cli.h"
#include "cli/base/cli_json.h"
#include "cli/base/cli_pages.h"
#include "cli/export_file.h"
#include "cli/otlp_line.h"

#include "base/clock.h"
#include "base/str.h"
#include "base/text/terminal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PAGE_RECORDS  1000u
#define TAIL_DEFAULT  20u
#define FOLLOW_MS     500u
#define TIMEOUT_S_MAX (30u * 86400)

static const char csv_head[] = "at,received_ms,wall_ms,device,class,epoch,batch,seq,task,upload,"
                               "schema,format,record\n";

// Where records go: lines of JSON, or CSV, or OTLP, or for people.
enum form { FORM_PEOPLE, FORM_JSON, FORM_CSV, FORM_OTLP };

static enum cli_exit get_page(const struct cli *cli, const char *after, uint64_t limit,
                              json_t **out)
{
    char path[CLI_PATH_MAX];
    (void)snprintf(path, sizeof(path), "/api/v1/tunnel/records?limit=%llu",
                   (unsigned long long)limit);
    const struct {
        const char *name;
        const char *value;
    } parameters[] = {
        {"&after=", after},
        {"&task=", cli->values[CLI_OPTION_TASK]},
        {"&device=", cli->values[CLI_OPTION_DEVICE]},
    };
    for (size_t i = 0; i < sizeof(parameters) / sizeof(parameters[0]); i++) {
        size_t size = strlen(path);
        if (parameters[i].value == NULL || parameters[i].value[0] == '\0') {
            continue;
        }
        (void)snprintf(path + size, sizeof(path) - size, "%s", parameters[i].name);
        if (!cli_path_add(path, sizeof(path), parameters[i].value)) {
            return cli_fail(CLI_EXIT_USAGE, "%s is too long", parameters[i].value);
        }
    }
    return cli_api_call(cli, "GET", path, NULL, out);
}

// A task that nobody knows has no records for another reason than one that sent none. The refusal
// is said, with what was probably meant.
static enum cli_exit check_task(const struct cli *cli)
{
    char path[CLI_PATH_MAX] = "/api/v1/tasks/";
    const char *task = cli->values[CLI_OPTION_TASK];
    json_t *root = NULL;
    if (task == NULL || task[0] == '\0') {
        return CLI_EXIT_OK;
    }
    if (!cli_path_add(path, sizeof(path), task)) {
        return cli_fail(CLI_EXIT_USAGE, "%s is too long", task);
    }
    enum cli_exit code = cli_api_call(cli, "GET", path, NULL, &root);
    json_decref(root);
    return code;
}

// ---- Forms

// A field of CSV (RFC 4180): quoted always, so that nothing in it matters.
static void put_csv(FILE *to, const char *text)
{
    putc('"', to);
    for (; *text != '\0'; text++) {
        if (*text == '"') {
            putc('"', to);
        }
        putc(*text, to);
    }
    putc('"', to);
}

static void put_csv_record(FILE *to, const json_t *item)
{
    static const char *const names[] = {"at",    "received_ms", "wall_ms", "device",
                                        "class", "epoch",       "batch",   "seq",
                                        "task",  "upload",      "schema",  "format"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const json_t *value = json_object_get(item, names[i]);
        if (json_is_integer(value)) {
            fprintf(to, "%lld", (long long)json_integer_value(value));
        } else {
            put_csv(to, json_is_string(value) ? json_string_value(value) : "");
        }
        putc(',', to);
    }
    const json_t *record = json_object_get(item, "record");
    char *text = json_is_string(record) ? NULL : json_dumps(record, JSON_COMPACT | JSON_ENCODE_ANY);
    put_csv(to, text != NULL ? text : json_is_string(record) ? json_string_value(record) : "");
    free(text);
    putc('\n', to);
}

static void put_line(FILE *to, const json_t *item)
{
    const json_t *record = json_object_get(item, "record");
    fprintf(to, "%s %s/%llu %llu ", cli_json_text(item, "device", "?"),
            cli_json_text(item, "task", "-"), (unsigned long long)cli_json_u64(item, "class"),
            (unsigned long long)cli_json_u64(item, "seq"));
    if (record == NULL) {
        fprintf(to, "lost %llu: %s\n", (unsigned long long)cli_json_u64(item, "lost"),
                cli_json_text(item, "reason", "?"));
        return;
    }
    fprintf(to, "%s ", cli_json_text(item, "upload", "?"));
    (void)json_dumpf(record, to, JSON_COMPACT | JSON_ENCODE_ANY);
    putc('\n', to);
}

static void put_record(FILE *to, enum form form, const json_t *item)
{
    if (form == FORM_JSON) {
        (void)json_dumpf(item, to, JSON_COMPACT);
        putc('\n', to);
    } else if (form == FORM_OTLP) {
        json_t *line = otlp_line_new(item);
        (void)json_dumpf(line, to, JSON_COMPACT);
        putc('\n', to);
        json_decref(line);
    } else if (form == FORM_PEOPLE) {
        put_line(to, item);
    } else if (json_object_get(item, "record") != NULL) { // losses have no row
        put_csv_record(to, item);
    }
}

// ---- Pages

struct walk {
    FILE *to;
    const char *name; // of what it is, for errors
    enum form form;
    char place[EXPORT_PLACE_MAX];
    uint64_t records;
    struct cli_pages pages;
    bool more;
};

static enum cli_exit put_page(const struct cli *cli, struct walk *walk, uint64_t limit)
{
    json_t *page = NULL;
    size_t index;
    json_t *item;
    enum cli_exit code = get_page(cli, walk->place, limit, &page);
    if (code != CLI_EXIT_OK) {
        return code;
    }
    json_array_foreach(json_object_get(page, "items"), index, item)
    {
        put_record(walk->to, walk->form, item);
        walk->records++;
    }
    if (json_is_true(json_object_get(page, "skipped"))) {
        fprintf(stderr, "walle: records were passed over: too old and gone, or damaged\n");
    }
    (void)snprintf(walk->place, sizeof(walk->place), "%s", cli_json_text(page, "next", ""));
    walk->more = json_is_true(json_object_get(page, "more"));
    json_decref(page);
    if (walk->more) { // at the end the place stays, until there is more
        code = cli_pages_next(cli, &walk->pages, walk->place);
    }
    if (fflush(walk->to) != 0 || ferror(walk->to)) {
        return cli_fail(CLI_EXIT_LOCAL, "cannot write %s: %s", walk->name, strerror(errno));
    }
    return code;
}

static enum cli_exit end_place(const struct cli *cli, char out[EXPORT_PLACE_MAX])
{
    json_t *root = NULL;
    enum cli_exit code = cli_api_call(cli, "GET", "/api/v1/tunnel", NULL, &root);
    (void)snprintf(out, EXPORT_PLACE_MAX, "%s", cli_json_text(root, "end", ""));
    json_decref(root);
    return code;
}

// ---- tail

enum cli_exit cli_tunnel_tail(struct cli *cli)
{
    uint64_t limit = 0;
    uint64_t timeout_s = 0;
    struct walk walk = {
        .to = stdout, .name = "standard output", .form = cli->json ? FORM_JSON : FORM_PEOPLE};
    const struct cli_range range = {1, PAGE_RECORDS, TAIL_DEFAULT, NULL};
    enum cli_exit code = cli_option_range(cli, CLI_OPTION_LIMIT, &range, &limit);
    if (code == CLI_EXIT_OK) {
        code = check_task(cli);
    }
    if (code == CLI_EXIT_OK) {
        code = cli_option_u64(cli, CLI_OPTION_TIMEOUT, TIMEOUT_S_MAX, TIMEOUT_S_MAX, &timeout_s);
    }
    bool follow = cli_given(cli, CLI_OPTION_FOLLOW);
    if (cli_given(cli, CLI_OPTION_AFTER)) {
        (void)snprintf(walk.place, sizeof(walk.place), "%s", cli->values[CLI_OPTION_AFTER]);
    } else if (code == CLI_EXIT_OK && follow) {
        code = end_place(cli, walk.place); // what comes from now on
    }
    uint64_t end_us = base_clock_mono_us() + timeout_s * 1000000u;
    if (code == CLI_EXIT_OK) {
        code = put_page(cli, &walk, limit);
    }
    if (code == CLI_EXIT_OK && !follow && walk.more) {
        fprintf(
            stderr,
            "walle: these are the oldest%s; more: --after %s goes on behind them, -f shows what "
            "comes from now on, walle tunnel export --out FILE keeps all\n",
            cli_given(cli, CLI_OPTION_AFTER) ? " behind that place" : "", walk.place);
    }
    while (code == CLI_EXIT_OK && follow) {
        const struct timespec pause = {.tv_nsec = (long)FOLLOW_MS * 1000000};
        if (base_clock_mono_us() >= end_us) {
            return CLI_EXIT_TIMEOUT;
        }
        if (!walk.more) {
            (void)nanosleep(&pause, NULL);
        }
        code = put_page(cli, &walk, PAGE_RECORDS);
    }
    return code;
}

// ---- export

static bool ends_with(const char *text, const char *end)
{
    size_t size = strlen(text);
    size_t tail = strlen(end);
    return size >= tail && strcmp(text + size - tail, end) == 0;
}

// Page by page, each with its place.
static enum cli_exit export_pages(const struct cli *cli, struct walk *walk,
                                  struct export_file *file)
{
    struct base_error error = {0};
    enum cli_exit code = CLI_EXIT_OK;
    do {
        code = put_page(cli, walk, PAGE_RECORDS);
        if (code == CLI_EXIT_OK && file != NULL) {
            memcpy(file->place, walk->place, sizeof(file->place));
            if (export_file_keep(file, &error) != BASE_OK) {
                code = cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
            }
        }
    } while (code == CLI_EXIT_OK && walk->more);
    return code;
}

static enum cli_exit say_exported(const struct cli *cli, const struct walk *walk)
{
    if (cli->json) {
        return cli_show_take(
            CLI_EXIT_OK,
            json_pack("{s:I, s:s}", "records", (json_int_t)walk->records, "next", walk->place));
    }
    printf("%llu records; the next export goes on behind them\n",
           (unsigned long long)walk->records);
    return CLI_EXIT_OK;
}

// By the file's name.
static enum form form_of(const char *path)
{
    if (path != NULL && ends_with(path, ".csv")) {
        return FORM_CSV;
    }
    return path != NULL && ends_with(path, ".otlp.jsonl") ? FORM_OTLP : FORM_JSON;
}

enum cli_exit cli_tunnel_export(struct cli *cli)
{
    enum cli_exit known = check_task(cli);
    if (known != CLI_EXIT_OK) {
        return known;
    }
    const char *path = cli->values[CLI_OPTION_OUT];
    const char *after = cli->values[CLI_OPTION_AFTER];
    if (path != NULL && strcmp(path, "-") == 0) {
        path = NULL; // standard output, which keeps no place
    }
    struct walk walk = {.to = stdout, .name = "standard output", .form = form_of(path)};
    struct export_file file;
    struct base_error error = {0};
    if (path != NULL) {
        if (export_file_open(&file, path, &error) != BASE_OK) {
            bool device = strncmp(path, "/dev/", 5) == 0;
            return cli_fail(CLI_EXIT_LOCAL, "%s%s", error.text,
                            device ? "; --out - is standard output" : "");
        }
        walk.to = file.to;
        walk.name = path;
        memcpy(walk.place, file.place, sizeof(walk.place));
        if (walk.form == FORM_CSV && file.fresh) {
            fputs(csv_head, walk.to);
        }
    }
    if (cli_given(cli, CLI_OPTION_AFTER)) {
        (void)snprintf(walk.place, sizeof(walk.place), "%s", after);
    }
    enum cli_exit code = export_pages(cli, &walk, path != NULL ? &file : NULL);
    if (path == NULL) {
        return code;
    }
    export_file_close(&file);
    return code == CLI_EXIT_OK ? say_exported(cli, &walk) : code;
}

// ---- stat

static void print_refused(const json_t *item)
{
    size_t index;
    json_t *refused;
    json_array_foreach(json_object_get(item, "refused"), index, refused)
    {
        printf("    device %s, %llu bytes: %s", cli_json_text(refused, "device", "?"),
               (unsigned long long)cli_json_u64(refused, "bytes"),
               cli_json_text(refused, "reason", "?"));
        const char *why = json_string_value(json_object_get(refused, "why"));
        if (why != NULL) {
            fputs(", ", stdout);
            base_terminal_text(stdout, base_str_of(why));
        }
        const json_t *record = json_object_get(refused, "record");
        if (json_is_string(record)) { // quoted: it is a stranger's
            fputs(": ", stdout);
            (void)json_dumpf(record, stdout, JSON_ENCODE_ANY | JSON_ENSURE_ASCII);
        }
        putchar('\n');
    }
}

static void print_uploads(const json_t *root)
{
    size_t index;
    json_t *item;
    json_array_foreach(json_object_get(root, "uploads"), index, item)
    {
        printf("%s %s, schema %llu%s, class %llu: %llu records, %llu refused\n",
               cli_json_text(item, "task", "?"), cli_json_text(item, "upload", "?"),
               (unsigned long long)cli_json_u64(item, "version"),
               json_is_true(json_object_get(item, "schema")) ? "" : " (none)",
               (unsigned long long)cli_json_u64(item, "class"),
               (unsigned long long)cli_json_u64(item, "records"),
               (unsigned long long)cli_json_u64(item, "rejected"));
        print_refused(item);
    }
}

enum cli_exit cli_tunnel_stat(struct cli *cli)
{
    json_t *root = NULL;
    const char *name;
    json_t *value;
    enum cli_exit code = cli_api_call(cli, "GET", "/api/v1/tunnel", NULL, &root);
    if (code != CLI_EXIT_OK || cli->json) {
        return cli_show_take(code, root);
    }
    printf("log %s to %s%s\n", cli_json_text(root, "first", "?"), cli_json_text(root, "end", "?"),
           json_is_true(json_object_get(root, "refusing")) ? ", cannot be written" : "");
    json_object_foreach(json_object_get(root, "counters"), name, value)
    {
        printf("%s %lld\n", name, (long long)json_integer_value(value));
    }
    print_uploads(root);
    json_decref(root);
    return CLI_EXIT_OK;
}
