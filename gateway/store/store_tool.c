// walle-store: looks into a gateway's data directory while no gateway runs on it: dump, check,
// compact, and salvage, which alone writes there. One thread. Opening read-only takes the folder's
// lock, so it waits for nobody and refuses where a gateway runs. Output is lines of text for
// scripts; the exit status says whether anything was found.
#include "store/store.h"

#include "base/check.h"
#include "base/text/likeness.h"
#include "base/text/near_option.h"
#include "base/os/process_start.h"
#include "base/text/terminal.h"

#include <argp.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_BAD_ARGS   2
#define VALUE_SHOWN_MAX 64 // bytes of a record shown by dump

struct arguments {
    const char *words[4];
    unsigned count;
};

static error_t parse_argument(int key, char *text, struct argp_state *state)
{
    struct arguments *arguments = state->input;
    if (key == ARGP_KEY_ARG) {
        if (arguments->count >= 4) {
            argp_usage(state);
        }
        arguments->words[arguments->count++] = text;
        return 0;
    }
    return ARGP_ERR_UNKNOWN;
}

static void print_hex(const uint8_t *bytes, size_t size, size_t limit)
{
    for (size_t i = 0; i < size && i < limit; i++) {
        printf("%02x", bytes[i]);
    }
    if (size > limit) {
        printf("...");
    }
}

static bool dump_record(void *ctx, struct base_span key, struct base_span value)
{
    printf("%s ", (const char *)ctx);
    print_hex(key.data, key.size, GW_STORE_KEY_MAX);
    printf(" %zu ", value.size);
    print_hex(value.data, value.size, VALUE_SHOWN_MAX);
    printf("\n");
    return true;
}

// One table, or with `only` NULL the count of records of each.
static int dump(struct gw_store *store, const char *only)
{
    bool known = only == NULL;
    enum base_status status = BASE_OK;
    for (int i = 0; i < GW_TABLE_COUNT; i++) {
        const char *name = gw_table_name((enum gw_table)i);
        struct gw_store_read *read;
        if (only != NULL && strcmp(only, name) != 0) {
            continue;
        }
        base_assert(only == NULL || !known); // no two tables have one name
        known = true;
        if (gw_store_read_begin(store, &read) != BASE_OK) {
            return EXIT_FAILURE;
        }
        if (only == NULL) {
            printf("%-12s %" PRIu64 "\n", name, gw_store_read_count(read, (enum gw_table)i));
        } else {
            struct gw_key from = {.bytes = {0}, .size = 1};
            status = gw_store_read_scan(read, (enum gw_table)i, &from, dump_record,
                                        (void *)(uintptr_t)name);
        }
        gw_store_read_end(read);
    }
    if (!known) {
        fprintf(stderr, "walle-store: no table %s\n", only);
    }
    if (status != BASE_OK) {
        fprintf(stderr, "walle-store: %s\n", base_status_text(status));
    }
    return known && status == BASE_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static void tell(void *ctx, const char *text)
{
    (void)ctx;
    printf("%s\n", text);
}

static int check(struct gw_store *store)
{
    uint64_t findings = gw_store_check(store, tell, NULL);
    printf("%" PRIu64 " findings\n", findings);
    return findings == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int compact(struct gw_store *store, const char *dir, const char *into)
{
    struct base_error error = {0};
    if (gw_store_compact(store, into, &error) != BASE_OK) {
        fprintf(stderr, "walle-store: %s\n", error.text);
        return EXIT_FAILURE;
    }
    printf("%s/store.mdb written; it is no backup: keys, large blobs and certificate of %s are "
           "not in it\n",
           into, dir);
    return EXIT_SUCCESS;
}

static int salvage(const char *dir)
{
    uint64_t copied = 0;
    struct base_error error = {0};
    if (gw_store_salvage(dir, tell, NULL, &copied, &error) != BASE_OK) {
        fprintf(stderr, "walle-store: %s\n", error.text);
        return EXIT_FAILURE;
    }
    printf("%" PRIu64 " records saved; the damaged file is store.mdb.damaged\n", copied);
    return EXIT_SUCCESS;
}

// What was probably meant by a word that is no command.
static void say_unknown(const char *verb)
{
    static const char *const verbs[] = {"dump", "check", "compact", "salvage"};
    struct base_nearest meant = base_nearest_to(base_str_of(verb));
    for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
        if (strcmp(verb, verbs[i]) == 0) {
            return; // it lacks a folder
        }
        base_nearest_offer(&meant, verbs[i]);
    }
    if (verb[0] != '\0') {
        fprintf(stderr, "walle-store: no command '%s'%s%s%s\n", verb,
                meant.found != NULL ? "; did you mean " : "",
                meant.found != NULL ? meant.found : "", meant.found != NULL ? "?" : "");
    }
}

int main(int argc, char **argv)
{
    base_process_start(EXIT_FAILURE);
    base_terminal_guard();
    if (base_process_version(argc, argv, "walle-store")) {
        return EXIT_SUCCESS;
    }
    static const struct argp argp = {
        .parser = parse_argument,
        .args_doc = "dump DIR [TABLE]\ncheck DIR\ncompact DIR EMPTY-DIR\nsalvage DIR",
        .doc = "Looks into the data directory of a walle-gateway that is not running."
               "\vdump without TABLE counts the records of every table; check reads everything and "
               "verifies blobs; compact writes a smaller copy of the store, no backup of the "
               "folder; salvage writes what "
               "can be "
               "read of a damaged store to a new one in its place, says what it had to leave "
               "behind, and "
               "keeps the old file as store.mdb.damaged.\n\nExamples:\n"
               "  walle-store check walle-data\n  walle-store dump walle-data rollouts\n"
               "\nExit codes: 0 done; 1 findings, or no store; 2 usage.",
    };
    struct arguments arguments = {.count = 0};
    argp_err_exit_status = EXIT_BAD_ARGS;
    if (!base_options_known(NULL, argc, argv)) {
        return EXIT_BAD_ARGS;
    }
    argp_parse(&argp, argc, argv, 0, NULL, &arguments);
    base_assert(arguments.count <= sizeof(arguments.words) / sizeof(arguments.words[0]));
    const char *verb = arguments.count > 0 ? arguments.words[0] : "";
    const char *extra = arguments.count > 2 ? arguments.words[2] : NULL;
    bool known = strcmp(verb, "dump") == 0 || strcmp(verb, "check") == 0 ||
                 strcmp(verb, "salvage") == 0 || (strcmp(verb, "compact") == 0 && extra != NULL);
    if (!known || arguments.count < 2) {
        say_unknown(verb);
        argp_help(&argp, stderr, ARGP_HELP_SHORT_USAGE, argv[0]);
        return EXIT_BAD_ARGS;
    }
    if (strcmp(verb, "salvage") == 0) {
        return salvage(arguments.words[1]);
    }
    struct gw_store_options options = {.dir = arguments.words[1], .read_only = true};
    struct gw_store *store = NULL;
    struct base_error error = {0};
    if (gw_store_open(&options, &store, &error) != BASE_OK) {
        fprintf(stderr, "walle-store: %s\n", error.text);
        return EXIT_FAILURE;
    }
    int rc = EXIT_SUCCESS;
    if (strcmp(verb, "dump") == 0) {
        rc = dump(store, extra);
    } else if (strcmp(verb, "check") == 0) {
        rc = check(store);
    } else {
        rc = compact(store, arguments.words[1], extra);
    }
    gw_store_close(store);
    return rc;
}
