// Commands about what came through the tunnel: tail, export, stat. One thread.
//
// An export goes on where it stopped: the place is kept beside the file (FILE.next), written after
// the lines it stands for are on disk. A crash between the two repeats lines, it never loses one.
#include "cli/cli.h"
#include "cli/cli_files.h"
#include "cli/cli_json.h"

#include "base/clock.h"
#include "base/output_file.h"
#include "base/regular_file.h"
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PAGE_RECORDS  1000u
#define TAIL_DEFAULT  20u
#define FOLLOW_MS     500u
#define TIMEOUT_S_MAX (30u * 86400)
#define PLACE_MAX     64
#define FILE_PATH_MAX 4096

static const char csv_head[] = "at,received_ms,wall_ms,device,class,epoch,batch,seq,task,upload,"
                               "schema,format,record\n";

// Where records go: lines of JSON, or CSV, or for people.
enum form { FORM_PEOPLE, FORM_JSON, FORM_CSV };

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
    } else if (form == FORM_PEOPLE) {
        put_line(to, item);
    } else if (json_object_get(item, "record") != NULL) { // losses have no row
        put_csv_record(to, item);
    }
}

// ---- Pages

struct walk {
    FILE *to;
    enum form form;
    char place[PLACE_MAX];
    uint64_t records;
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
    if (fflush(walk->to) != 0 || ferror(walk->to)) {
        return cli_fail(CLI_EXIT_LOCAL, "cannot write: %s", strerror(errno));
    }
    return CLI_EXIT_OK;
}

static enum cli_exit end_place(const struct cli *cli, char out[PLACE_MAX])
{
    json_t *root = NULL;
    enum cli_exit code = cli_api_call(cli, "GET", "/api/v1/tunnel", NULL, &root);
    (void)snprintf(out, PLACE_MAX, "%s", cli_json_text(root, "end", ""));
    json_decref(root);
    return code;
}

// ---- tail

enum cli_exit cli_tunnel_tail(struct cli *cli)
{
    uint64_t limit = 0;
    uint64_t timeout_s = 0;
    struct walk walk = {.to = stdout, .form = cli->json ? FORM_JSON : FORM_PEOPLE};
    enum cli_exit code = cli_option_u64(cli, CLI_OPTION_LIMIT, TAIL_DEFAULT, PAGE_RECORDS, &limit);
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

static bool side_path(const char *path, const char *end, char out[FILE_PATH_MAX])
{
    int size = snprintf(out, FILE_PATH_MAX, "%s%s", path, end);
    return size > 0 && size < FILE_PATH_MAX;
}

static enum cli_exit load_place(const char *path, char out[PLACE_MAX])
{
    char side[FILE_PATH_MAX];
    if (!side_path(path, ".next", side)) {
        return cli_fail(CLI_EXIT_USAGE, "--out is too long");
    }
    struct base_error error = {0};
    uint8_t *text = NULL;
    size_t size = 0;
    enum base_status status = cli_file_read_own(side, PLACE_MAX - 1, &text, &size, &error);
    if (status == BASE_ERR_NOT_FOUND) {
        return CLI_EXIT_OK; // a new one
    }
    if (status != BASE_OK) {
        return cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
    }
    (void)snprintf(out, PLACE_MAX, "%.*s", (int)strcspn((const char *)text, "\n"),
                   (const char *)text);
    free(text);
    return CLI_EXIT_OK;
}

static enum cli_exit save_place(const char *path, const char *place)
{
    char side[FILE_PATH_MAX];
    struct base_output_file out;
    struct base_error error = {0};
    if (!side_path(path, ".next", side)) {
        return cli_fail(CLI_EXIT_USAGE, "--out is too long");
    }
    enum base_status status = base_output_open(&out, side, &error);
    if (status == BASE_OK) {
        bool good = fprintf(out.file, "%s\n", place) > 0 && fflush(out.file) == 0 &&
                    fsync(fileno(out.file)) == 0;
        status =
            good ? BASE_OK : base_error_set(&error, BASE_ERR_IO, "%s: %s", side, strerror(errno));
        status = base_output_close(&out, status, &error);
    }
    return status == BASE_OK ? CLI_EXIT_OK : cli_fail(CLI_EXIT_LOCAL, "%s", error.text);
}

static enum cli_exit export_pages(const struct cli *cli, struct walk *walk, const char *path)
{
    enum cli_exit code = CLI_EXIT_OK;
    do {
        code = put_page(cli, walk, PAGE_RECORDS);
        if (code == CLI_EXIT_OK && path != NULL) {
            code = fsync(fileno(walk->to)) == 0
                       ? save_place(path, walk->place)
                       : cli_fail(CLI_EXIT_LOCAL, "%s: %s", path, strerror(errno));
        }
    } while (code == CLI_EXIT_OK && walk->more);
    return code;
}

enum cli_exit cli_tunnel_export(struct cli *cli)
{
    const char *path = cli->values[CLI_OPTION_OUT];
    if (path != NULL && strcmp(path, "-") == 0) {
        path = NULL; // standard output, which keeps no place
    }
    bool csv = path != NULL && ends_with(path, ".csv");
    struct walk walk = {.to = stdout, .form = csv ? FORM_CSV : FORM_JSON};
    enum cli_exit code = path != NULL ? load_place(path, walk.place) : CLI_EXIT_OK;
    if (code != CLI_EXIT_OK) {
        return code;
    }
    if (cli_given(cli, CLI_OPTION_AFTER)) {
        (void)snprintf(walk.place, sizeof(walk.place), "%s", cli->values[CLI_OPTION_AFTER]);
    }
    if (path != NULL) {
        struct base_error error = {0};
        int fd = -1;
        enum base_status status =
            base_regular_open(path, O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW, &fd, &error);
        if (status != BASE_OK) {
            return cli_fail(CLI_EXIT_LOCAL, "%s%s", error.text,
                            status == BASE_ERR_INVALID ? "; --out - is standard output" : "");
        }
        walk.to = fdopen(fd, "a");
        if (walk.to == NULL) {
            (void)close(fd);
            return cli_fail(CLI_EXIT_LOCAL, "%s: %s", path, strerror(errno));
        }
        if (csv && fseek(walk.to, 0, SEEK_END) == 0 && ftell(walk.to) == 0) {
            fputs(csv_head, walk.to);
        }
    }
    code = export_pages(cli, &walk, path);
    if (path == NULL) {
        return code;
    }
    if (fclose(walk.to) != 0 && code == CLI_EXIT_OK) {
        code = cli_fail(CLI_EXIT_LOCAL, "%s: %s", path, strerror(errno));
    }
    if (code == CLI_EXIT_OK && cli->json) {
        return cli_show_take(
            code, json_pack("{s:I, s:s}", "records", (json_int_t)walk.records, "next", walk.place));
    }
    if (code == CLI_EXIT_OK) {
        printf("%llu records; the next export goes on behind them\n",
               (unsigned long long)walk.records);
    }
    return code;
}

// ---- stat

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
