// Finds OpenBLAS with the dynamic loader and calls its sgemm. Called by blas_step.c and the
// search's calibration from any thread.
//
// OpenBLAS reads its settings from the environment while it is loaded: how many threads to start
// (one: it shall start none of its own) and which kernels to use. Releases older than a processor
// do not know it and fall back to kernels half as fast, so the choice is made here from what the
// processor can do. The environment is not changed for that, which would be unsafe beside other
// threads that read it: for the moment of loading, `environ` names another list, which is never
// freed, so that readers find either list whole.
#include "backend/cpu/blas.h"

#include "backend/cpu/kernel/isa.h"
#include "base/check.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LIBRARY       "libopenblas.so.0"
#define PATH_VARIABLE "WALLE_ENGINE_BLAS"
#define ADDED         2   // variables
#define ROW_MAJOR     101 // values of the CBLAS interface
#define NO_TRANS      111
#define TRANS         112
#define FLOPS_SIZE    96
#define FLOPS_OF_ONE  (2.0 * FLOPS_SIZE * FLOPS_SIZE * FLOPS_SIZE)

typedef void (*sgemm_fn)(int order, int trans_a, int trans_b, int rows, int columns, int depth,
                         float alpha, const float *left, int lda, const float *right, int ldb,
                         float beta, float *out, int ldc);
typedef void (*set_threads_fn)(int threads);
typedef int (*get_threads_fn)(void);

struct eng_blas {
    void *library;
    sgemm_fn sgemm;
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct eng_blas *process_blas; // written once, under `once`

static bool names_variable(const char *entry, const char *assignment)
{
    const size_t length = strcspn(assignment, "=") + 1;
    return strncmp(entry, assignment, length) == 0;
}

// The environment with `added` where it has no such variable. NULL: no memory.
static char **extended_environment(char **from, char *const added[ADDED])
{
    size_t count = 0;
    while (from != NULL && from[count] != NULL) {
        count++;
    }
    char **list = calloc(count + ADDED + 1, sizeof *list);
    if (list == NULL) {
        return NULL;
    }
    if (count > 0) {
        memcpy(list, from, count * sizeof *list);
    }
    const size_t given = count;
    for (int i = 0; i < ADDED; i++) {
        bool is_there = false;
        for (size_t e = 0; e < given; e++) {
            is_there |= names_variable(from[e], added[i]);
        }
        if (!is_there) {
            list[count++] = added[i];
        }
    }
    base_assert(list[count] == NULL); // where its readers stop
    return list;
}

static void *load(const char *path)
{
    static char one_thread[] = "OPENBLAS_NUM_THREADS=1";
    static char avx512[] = "OPENBLAS_CORETYPE=SkylakeX";
    static char avx2[] = "OPENBLAS_CORETYPE=Haswell";
    static char **list; // never freed; made once
    const bool wide = eng_isa_has(ENG_ISA_AVX512);
    char *core = wide ? avx512 : eng_isa_has(ENG_ISA_AVX2) ? avx2 : one_thread;
    char *const added[ADDED] = {one_thread, core};
    char **before = environ;
    if (list == NULL) {
        list = extended_environment(before, added);
    }
    if (list == NULL) {
        return NULL;
    }
    __atomic_store_n(&environ, list, __ATOMIC_RELEASE);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    __atomic_store_n(&environ, before, __ATOMIC_RELEASE);
    return library;
}

enum base_status eng_blas_open(const char *path, struct eng_blas **out_blas)
{
    struct eng_blas *blas = calloc(1, sizeof *blas);
    if (blas == NULL) {
        return BASE_ERR_NOMEM;
    }
    blas->library = load(path);
    if (blas->library == NULL) {
        eng_blas_close(blas);
        return BASE_ERR_NOT_FOUND;
    }
    void *sgemm = dlsym(blas->library, "cblas_sgemm");
    void *get = dlsym(blas->library, "openblas_get_num_threads");
    void *set = dlsym(blas->library, "openblas_set_num_threads");
    if (sgemm == NULL || get == NULL || set == NULL) {
        eng_blas_close(blas);
        return BASE_ERR_UNSUPPORTED;
    }
    get_threads_fn get_threads = NULL;
    set_threads_fn set_threads = NULL;
    _Static_assert(sizeof(blas->sgemm) == sizeof(sgemm), "a function is found as an address");
    memcpy(&blas->sgemm, &sgemm, sizeof sgemm);
    memcpy(&get_threads, &get, sizeof get);
    memcpy(&set_threads, &set, sizeof set);
    // Loaded before by somebody else, it may have threads of its own.
    if (get_threads() > 1) {
        set_threads(1);
    }
    *out_blas = blas;
    return BASE_OK;
}

void eng_blas_close(struct eng_blas *blas)
{
    if (blas != NULL && blas->library != NULL) {
        (void)dlclose(blas->library);
    }
    free(blas);
}

static void open_process_blas(void)
{
    const char *path = getenv(PATH_VARIABLE);
    path = path != NULL ? path : LIBRARY;
    if (path[0] != '\0' && eng_blas_open(path, &process_blas) != BASE_OK) {
        process_blas = NULL;
    }
}

const struct eng_blas *eng_blas_get(void)
{
    (void)pthread_once(&once, open_process_blas);
    return process_blas;
}

void eng_blas_sgemm(const struct eng_blas *blas, const struct eng_blas_product *blas_product)
{
    base_assert(blas_product->m >= 0 && blas_product->n >= 0);
    base_assert(blas_product->k >= 0);
    blas->sgemm(ROW_MAJOR, blas_product->trans_a ? TRANS : NO_TRANS,
                blas_product->trans_b ? TRANS : NO_TRANS, blas_product->m, blas_product->n,
                blas_product->k, blas_product->alpha, blas_product->a, blas_product->lda,
                blas_product->b, blas_product->ldb, blas_product->beta, blas_product->c,
                blas_product->ldc);
}

double eng_blas_flops(void *ctx, uint64_t rounds)
{
    base_assert(rounds > 0); // what it gives for none says that there is no BLAS
    (void)ctx;
    const struct eng_blas *blas = eng_blas_get();
    float *data = blas != NULL ? calloc((size_t)3 * FLOPS_SIZE * FLOPS_SIZE, sizeof *data) : NULL;
    if (data == NULL) {
        return 0;
    }
    const struct eng_blas_product product = {.m = FLOPS_SIZE,
                                             .n = FLOPS_SIZE,
                                             .k = FLOPS_SIZE,
                                             .lda = FLOPS_SIZE,
                                             .ldb = FLOPS_SIZE,
                                             .ldc = FLOPS_SIZE,
                                             .alpha = 1.0F,
                                             .a = data,
                                             .b = data + FLOPS_SIZE * FLOPS_SIZE,
                                             .c = data + 2 * FLOPS_SIZE * FLOPS_SIZE};
    for (uint64_t r = 0; r < rounds; r++) {
        eng_blas_sgemm(blas, &product);
    }
    free(data);
    return FLOPS_OF_ONE * (double)rounds;
}
