// walle.np: discrete Fourier transforms of double precision, of any size. Numbers are pairs, real
// and imaginary part next to one another.
//
// A transform is made once for a size and used for many rows. Its memory is of the script's heap
// and lives as long as the structure does, on the C stack of the call that made it. Work is paid
// for as it is done.
#ifndef DEV_NP_FOURIER_H
#define DEV_NP_FOURIER_H

#include "vm/np/np.h"

#define NP_FOURIER_FACTORS 64 // of a size that fits a machine word

// One whose factors are small: a pass for each.
struct np_passes {
    size_t size;
    uint32_t factor_count;
    uint8_t factors[NP_FOURIER_FACTORS];
    double *roots; // `size` pairs: e to the power of -2 pi i k / size
    double *spare; // `size` pairs
};

struct np_fourier {
    size_t size;
    bool is_chirp;           // a convolution, where a prime factor is large
    struct np_passes passes; // of this size, or of the convolution's
    double *chirp;           // `size` pairs
    double *kernel;          // as many pairs as the passes have
    double *padded;          // the same
    size_t owed;             // elements gone through and not paid for
};

// Raises MemoryError; `size` is at least 1.
void dev_np_fourier_make(struct np_fourier *fourier, size_t size);
// In place, `size` pairs: sums of values[j] times e to the power of -2 pi i j k / size. The inverse
// has a plus there and is not divided by the size.
void dev_np_fourier(struct np_fourier *fourier, double *values, bool is_inverse);

// Of `size` real numbers, to and from the first size / 2 + 1 pairs.
struct np_fourier_real {
    size_t size;
    struct np_fourier fourier; // of half the size where that is whole
    double *roots;             // size / 2 + 1 pairs; NULL: the size is odd
    double *pairs;             // `size` or half as many
};

void dev_np_fourier_real_make(struct np_fourier_real *real, size_t size);
void dev_np_fourier_real(struct np_fourier_real *real, const double *values, double *out_pairs);
// The numbers that these pairs are the transform of, divided by the size. Of the first pair, and of
// the last where the size is even, the imaginary part is taken as 0.
void dev_np_fourier_real_back(struct np_fourier_real *real, const double *pairs, double *out);

#endif
