// Runs a fuzz target without libFuzzer: replays every seed file of a directory and a fixed number
// of deterministic mutations of each. This is what the ordinary test run uses; the fuzz preset has
// the real thing. Inputs are heap copies of exact size, so that a sanitizer sees the first byte too
// many.
//
//   fuzz_NAME DIRECTORY [MUTATIONS]
// WALLE_TEST_SEED changes the draw. One thread.
#include "fuzz_target.h"

#include "base/prng.h"
#include "base/str.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SEED_DEFAULT      20261121u
#define MUTATIONS_DEFAULT 3000u
#define SEEDS_MAX         256u
#define INPUT_MAX         65536u

struct seed {
    char *name;
    uint8_t *bytes;
    size_t size;
};

struct corpus {
    struct seed seeds[SEEDS_MAX];
    size_t count;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct seed *)a)->name, ((const struct seed *)b)->name);
}

static bool read_seed(const char *dir, const char *name, struct seed *seed)
{
    char path[4096];
    int written = snprintf(path, sizeof path, "%s/%s", dir, name);
    if (written < 0 || (size_t)written >= sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return false;
    }
    uint8_t *bytes = malloc(INPUT_MAX);
    char *copy = strdup(name);
    size_t size = bytes == NULL ? 0 : fread(bytes, 1, INPUT_MAX, file);
    bool whole = bytes != NULL && copy != NULL && ferror(file) == 0 && feof(file) != 0;
    (void)fclose(file);
    if (!whole) {
        free(bytes);
        free(copy);
        return false;
    }
    *seed = (struct seed){.name = copy, .bytes = bytes, .size = size};
    return true;
}

static bool read_corpus(const char *path, struct corpus *corpus)
{
    DIR *dir = opendir(path);
    if (dir == NULL) {
        (void)fprintf(stderr, "%s: no such seed directory\n", path);
        return false;
    }
    bool ok = true;
    for (struct dirent *entry = readdir(dir); entry != NULL && ok; entry = readdir(dir)) {
        if (entry->d_name[0] == '.') {
            continue;
        }
        ok = corpus->count < SEEDS_MAX &&
             read_seed(path, entry->d_name, &corpus->seeds[corpus->count]);
        if (!ok) {
            (void)fprintf(stderr, "%s/%s: cannot be read, over %u bytes, or one too many\n", path,
                          entry->d_name, INPUT_MAX);
            break;
        }
        corpus->count++;
    }
    (void)closedir(dir);
    if (ok && corpus->count == 0) {
        (void)fprintf(stderr, "%s: holds no seeds\n", path);
        return false;
    }
    // The order of a directory is the file system's own: sort, so that a seed repeats a run.
    qsort(corpus->seeds, corpus->count, sizeof corpus->seeds[0], by_name);
    return ok;
}

static void run_exact(const uint8_t *bytes, size_t size)
{
    uint8_t *exact = malloc(size == 0 ? 1 : size);
    if (exact == NULL) {
        abort();
    }
    memcpy(exact, bytes, size);
    (void)LLVMFuzzerTestOneInput(exact, size);
    free(exact);
}

static size_t below(struct base_prng *prng, size_t bound)
{
    return (size_t)base_prng_below(prng, bound);
}

// One change of the first `size` bytes of `input`, which holds INPUT_MAX; returns the new size.
static size_t mutate_once(struct base_prng *prng, uint8_t *input, size_t size,
                          const struct corpus *corpus)
{
    static const uint8_t telling[] = {0x00, 0x01, 0x7f, 0x80, 0x81, 0xfe, 0xff, '.', '-', '/'};
    size_t at = size == 0 ? 0 : below(prng, size);
    size_t span = 1 + below(prng, 8);
    const struct seed *other = &corpus->seeds[below(prng, corpus->count)];
    switch (base_prng_below(prng, 7)) {
    case 0: // flip a bit
        if (size > 0) {
            input[at] ^= (uint8_t)(1u << base_prng_below(prng, 8));
        }
        return size;
    case 1: // a byte by chance
        if (size > 0) {
            input[at] = (uint8_t)base_prng_next(prng);
        }
        return size;
    case 2: // a byte that tends to matter
        if (size > 0) {
            input[at] = telling[below(prng, sizeof telling)];
        }
        return size;
    case 3: // cut the end
        return at;
    case 4: // take a piece out
        span = span < size - at ? span : size - at;
        memmove(input + at, input + at + span, size - at - span);
        return size - span;
    case 5: // double a piece
        span = span < size - at ? span : size - at;
        span = span < INPUT_MAX - size ? span : INPUT_MAX - size;
        memmove(input + at + span, input + at, size - at);
        return size + span;
    default: // go on as another seed does
        if (other->size <= at) {
            return size;
        }
        memcpy(input + at, other->bytes + at, other->size - at);
        return other->size;
    }
}

static void run_mutations(struct base_prng *prng, const struct corpus *corpus, uint64_t count)
{
    static uint8_t input[INPUT_MAX];
    for (size_t i = 0; i < corpus->count; i++) {
        const struct seed *seed = &corpus->seeds[i];
        for (uint64_t round = 0; round < count; round++) {
            memcpy(input, seed->bytes, seed->size);
            size_t size = seed->size;
            size_t changes = 1 + below(prng, 4);
            for (size_t change = 0; change < changes; change++) {
                size = mutate_once(prng, input, size, corpus);
            }
            run_exact(input, size);
        }
    }
}

static bool number(const char *text, uint64_t *out)
{
    return text == NULL || base_str_u64(base_str_of(text), out) == BASE_OK;
}

int main(int argc, char **argv)
{
    static struct corpus corpus;
    uint64_t seed = SEED_DEFAULT;
    uint64_t mutations = MUTATIONS_DEFAULT;
    bool fine = argc >= 2 && argc <= 3 && number(getenv("WALLE_TEST_SEED"), &seed) &&
                number(argc == 3 ? argv[2] : NULL, &mutations);
    if (!fine) {
        (void)fprintf(stderr, "usage: %s SEED_DIRECTORY [MUTATIONS]\n", argv[0]);
        return 2;
    }
    printf("seed %llu, %llu mutations of each file in %s\n", (unsigned long long)seed,
           (unsigned long long)mutations, argv[1]);
    (void)fflush(stdout);
    if (!read_corpus(argv[1], &corpus)) {
        return 1;
    }
    struct base_prng prng;
    base_prng_seed(&prng, seed);
    for (size_t i = 0; i < corpus.count; i++) {
        run_exact(corpus.seeds[i].bytes, corpus.seeds[i].size);
    }
    run_mutations(&prng, &corpus, mutations);
    for (size_t i = 0; i < corpus.count; i++) {
        free(corpus.seeds[i].name);
        free(corpus.seeds[i].bytes);
    }
    printf("%zu files replayed\n", corpus.count);
    return 0;
}
