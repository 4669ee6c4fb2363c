// One line that repeats a run. command/fleet_options.c makes it of the words of the process before
// anything reads them, and compare/verify_main.c takes it apart again. Pure but for the working
// directory; any thread.
#include "model/repro_line.h"

#include "base/check.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PLAIN "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:,=%+@"

struct writer {
    char *out;
    size_t room;
    size_t used; // `room`: it did not fit
};

static void put(struct writer *writer, const char *text)
{
    size_t size = strlen(text);
    if (writer->used + size + 1 > writer->room) {
        writer->used = writer->room;
        return;
    }
    memcpy(writer->out + writer->used, text, size + 1);
    writer->used += size;
}

static void put_word(struct writer *writer, const char *word)
{
    if (word[0] != '\0' && word[strspn(word, PLAIN)] == '\0') {
        put(writer, word);
        return;
    }
    put(writer, "'");
    for (const char *at = word; *at != '\0'; at++) {
        const char letter[2] = {*at, '\0'};
        put(writer, *at == '\'' ? "'\\''" : letter);
    }
    put(writer, "'");
}

// Half a line would be another run.
static void end(struct writer *writer)
{
    base_assert(writer->used <= writer->room);
    if (writer->used == writer->room) {
        writer->out[0] = '\0';
    }
}

void sim_repro_write(int argc, char *const *argv, char out[SIM_REPRO_BYTES_MAX])
{
    char folder[PATH_MAX];
    struct writer writer = {.out = out, .room = SIM_REPRO_BYTES_MAX};
    out[0] = '\0';
    if (getcwd(folder, sizeof(folder)) == NULL) {
        return;
    }
    put(&writer, "cd ");
    put_word(&writer, folder);
    put(&writer, " && walle-fleet-sim");
    for (int i = 1; i < argc; i++) {
        put(&writer, " ");
        put_word(&writer, argv[i]);
    }
    end(&writer);
}

void sim_repro_words(const char *const *words, char *out, size_t out_bytes)
{
    struct writer writer = {.out = out, .room = out_bytes};
    base_assert(out_bytes > 0);
    out[0] = '\0';
    for (size_t i = 0; words[i] != NULL; i++) {
        put(&writer, i > 0 ? " " : "");
        put_word(&writer, words[i]);
    }
    end(&writer);
}

// One word of a shell, quotes and all, from *at on; its text goes to *to, a zero byte behind it.
// False: a quote is never closed.
static bool take_word(const char **at, char **to)
{
    bool quoted = false;
    for (; **at != '\0' && (quoted || (**at != ' ' && **at != '\n')); ++*at) {
        if (**at == '\'') {
            quoted = !quoted;
        } else if (!quoted && **at == '\\' && (*at)[1] != '\0') {
            ++*at;
            *(*to)++ = **at;
        } else {
            *(*to)++ = **at;
        }
    }
    *(*to)++ = '\0';
    *at += **at == ' ';
    return !quoted;
}

enum base_status sim_repro_read(const char *line, struct sim_repro *out)
{
    const char *words[SIM_REPRO_WORDS_MAX + 4];
    uint32_t count = 0;
    char *to = out->text;
    memset(out, 0, sizeof(*out));
    if (strlen(line) >= SIM_REPRO_BYTES_MAX) {
        return BASE_ERR_INVALID;
    }
    for (const char *at = line; *at != '\0' && *at != '\n';) {
        if (count == sizeof(words) / sizeof(words[0])) {
            return BASE_ERR_INVALID;
        }
        words[count++] = to;
        if (!take_word(&at, &to)) {
            return BASE_ERR_INVALID;
        }
    }
    bool good = count > 4 && strcmp(words[0], "cd") == 0 && strcmp(words[2], "&&") == 0 &&
                strcmp(words[3], "walle-fleet-sim") == 0 && count - 3 <= SIM_REPRO_WORDS_MAX;
    if (!good) {
        return BASE_ERR_INVALID;
    }
    out->folder = words[1];
    out->count = count - 3;
    memcpy(out->words, words + 3, sizeof(words[0]) * out->count);
    return BASE_OK;
}
