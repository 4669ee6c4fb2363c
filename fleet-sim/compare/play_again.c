// Plays runs once more. verify_main.c and diff_main.c call it on the main thread; it returns when
// the second run has ended. The line is taken apart here (model/repro_line.h) and the program
// started with its words: no shell sees it.
#include "compare/play_again.h"

#include "base/check.h"
#include "model/sim_exit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

static enum base_status line_read(struct sim_again *again, struct base_error *error)
{
    char path[PATH_MAX + 16];
    char line[SIM_REPRO_BYTES_MAX] = "";
    (void)snprintf(path, sizeof(path), "%s/" SIM_REPRO_FILE, again->first);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", path, strerror(errno));
    }
    bool read = fgets(line, sizeof(line), file) != NULL;
    (void)fclose(file);
    if (!read || sim_repro_read(line, &again->repro) != BASE_OK) {
        return base_error_set(error, BASE_ERR_INVALID, "%.200s: it is no line of a run", path);
    }
    return BASE_OK;
}

static bool has_word(const struct sim_repro *repro, const char *word)
{
    size_t size = strlen(word);
    for (uint32_t i = 0; i < repro->count; i++) {
        const char *rest = repro->words[i] + size;
        if (strncmp(repro->words[i], word, size) == 0 && (*rest == '\0' || *rest == '=')) {
            return true;
        }
    }
    return false;
}

enum base_status sim_again_open(struct sim_again *again, const char *out, const char *name,
                                struct base_error *error)
{
    *again = (struct sim_again){.child = {.pid = 0}};
    if (realpath(out, again->first) == NULL) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", out, strerror(errno));
    }
    int size = snprintf(again->child.folder, sizeof(again->child.folder), "%.*s/%s",
                        (int)sizeof(again->child.folder), again->first, name);
    if (size >= (int)sizeof(again->child.folder)) {
        return base_error_set(error, BASE_ERR_IO, "%.200s: %s", out, strerror(ENAMETOOLONG));
    }
    BASE_TRY(line_read(again, error));
    if (!has_word(&again->repro, "--virtual")) {
        return base_error_set(error, BASE_ERR_INVALID,
                              "%.100s is of a run in real time, which never comes again as it was: "
                              "conform compares two of them",
                              again->first);
    }
    return BASE_OK;
}

// The line's words, for the second run.
static enum base_status words_make(struct sim_again *again, const char *const *more,
                                   struct base_error *error)
{
    static const char *const elsewhere[] = {"--out",      "--junit",        "--metrics",
                                            "--evidence", "--evidence-key", "--trace"};
    const char *const own[] = {"--no-live", "--out", again->child.folder, NULL};
    const char *const *const lists[] = {own, more};
    struct sim_repro *repro = &again->repro;
    sim_repro_drop(repro, elsewhere, sizeof(elsewhere) / sizeof(elsewhere[0]));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        for (const char *const *word = lists[i]; *word != NULL; word++) {
            if (repro->count == SIM_REPRO_WORDS_MAX) {
                return base_error_set(error, BASE_ERR_LIMIT, "the run has too many words");
            }
            repro->words[repro->count++] = *word;
        }
    }
    repro->words[repro->count] = NULL;
    return BASE_OK;
}

enum base_status sim_again_play(struct sim_again *again, const char *const *more,
                                struct base_error *error)
{
    int status = 0;
    base_assert(again->child.folder[0] != '\0');
    BASE_TRY(words_make(again, more, error));
    again->child.from = again->repro.folder;
    BASE_TRY(sim_child_begin(&again->child, again->repro.words, error));
    while (waitpid(again->child.pid, &status, 0) < 0) {
        if (errno != EINTR) {
            return base_error_set(error, BASE_ERR_IO, "waiting for the run: %s", strerror(errno));
        }
    }
    again->child.pid = 0;
    bool wrote = WIFEXITED(status) && WEXITSTATUS(status) <= SIM_EXIT_THRESHOLD &&
                 WEXITSTATUS(status) != SIM_EXIT_USAGE && WEXITSTATUS(status) != SIM_EXIT_LOCAL;
    return wrote ? BASE_OK
                 : base_error_set(error, BASE_ERR_IO, "the run came to nothing: see %.200s.log",
                                  again->child.folder);
}
