// The memo of signatures that shards in virtual time share. ports/sim_crypto.c asks it in place of
// the shard's own; run/fleet_virtual.c makes it and lets it age once a second of the run. Shared
// atomics: an answer's `told`, which is set once the real check is done.
#include "ports/shared_verify.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

struct answer {
    struct answer *next; // in its chain
    uint64_t hash;
    uint8_t key[WIRE_PUBLIC_KEY_BYTES];
    uint8_t signature[WIRE_SIGNATURE_BYTES];
    enum base_status status; // once told
    atomic_bool told;
    size_t size;
    uint8_t message[];
};

// New answers are put in the first table; the second has those of before.
struct sim_shared_verify {
    pthread_mutex_t lock;
    struct answer *chains[2][SIM_SHARED_VERIFY_CHAINS];
    uint32_t count; // in the first table
};

enum base_status sim_shared_verify_new(struct sim_shared_verify **out_memo)
{
    struct sim_shared_verify *memo = calloc(1, sizeof(*memo));
    if (memo == NULL) {
        return BASE_ERR_NOMEM;
    }
    pthread_mutex_init(&memo->lock, NULL);
    *out_memo = memo;
    return BASE_OK;
}

static void clear(struct answer **chains)
{
    for (uint32_t i = 0; i < SIM_SHARED_VERIFY_CHAINS; i++) {
        while (chains[i] != NULL) {
            struct answer *answer = chains[i];
            chains[i] = answer->next;
            free(answer);
        }
    }
}

void sim_shared_verify_free(struct sim_shared_verify *memo)
{
    if (memo != NULL) {
        clear(memo->chains[0]);
        clear(memo->chains[1]);
        pthread_mutex_destroy(&memo->lock);
        free(memo);
    }
}

void sim_shared_verify_age(struct sim_shared_verify *memo)
{
    if (memo->count >= SIM_SHARED_VERIFY_AGES) {
        clear(memo->chains[1]);
        memcpy(memo->chains[1], memo->chains[0], sizeof(memo->chains[0]));
        memset(memo->chains[0], 0, sizeof(memo->chains[0]));
        memo->count = 0;
    }
}

static bool is_of(const struct answer *answer, const struct sim_verify_question *question)
{
    return answer->hash == question->hash && answer->size == question->size &&
           memcmp(answer->key, question->key, sizeof(answer->key)) == 0 &&
           memcmp(answer->signature, question->signature, sizeof(answer->signature)) == 0 &&
           memcmp(answer->message, question->message, question->size) == 0;
}

static struct answer *find(const struct sim_shared_verify *memo,
                           const struct sim_verify_question *question)
{
    for (uint32_t age = 0; age < 2; age++) {
        struct answer *answer = memo->chains[age][question->hash % SIM_SHARED_VERIFY_CHAINS];
        for (; answer != NULL; answer = answer->next) {
            if (is_of(answer, question)) {
                return answer;
            }
        }
    }
    return NULL;
}

// NULL: out of memory.
static struct answer *add(struct sim_shared_verify *memo,
                          const struct sim_verify_question *question)
{
    struct answer **chain = &memo->chains[0][question->hash % SIM_SHARED_VERIFY_CHAINS];
    struct answer *answer = malloc(sizeof(*answer) + question->size);
    if (answer != NULL) {
        *answer = (struct answer){.next = *chain, .hash = question->hash, .size = question->size};
        memcpy(answer->key, question->key, sizeof(answer->key));
        memcpy(answer->signature, question->signature, sizeof(answer->signature));
        memcpy(answer->message, question->message, question->size);
        *chain = answer;
        memo->count++;
    }
    return answer;
}

void sim_shared_verify_note(struct sim_shared_verify *memo,
                            const struct sim_verify_question *question)
{
    pthread_mutex_lock(&memo->lock);
    struct answer *answer = find(memo, question) == NULL ? add(memo, question) : NULL;
    if (answer != NULL) {
        answer->status = BASE_OK;
        atomic_store_explicit(&answer->told, true, memory_order_release);
    }
    pthread_mutex_unlock(&memo->lock);
}

enum base_status sim_shared_verify_ask(struct sim_shared_verify *memo,
                                       const struct dev_crypto_port *real,
                                       const struct sim_verify_question *question, bool *out_real)
{
    pthread_mutex_lock(&memo->lock);
    struct answer *answer = find(memo, question);
    *out_real = answer == NULL;
    if (answer == NULL) {
        answer = add(memo, question);
    }
    pthread_mutex_unlock(&memo->lock);
    if (!*out_real) {
        while (!atomic_load_explicit(&answer->told, memory_order_acquire)) {
            (void)sched_yield(); // another thread is verifying it
        }
        return answer->status;
    }
    enum base_status status = real->verify(real->ctx, question->key, question->message,
                                           question->size, question->signature);
    if (answer != NULL) {
        answer->status = status;
        atomic_store_explicit(&answer->told, true, memory_order_release);
    }
    return status;
}
