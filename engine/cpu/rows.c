#include "engine/cpu/rows.h"

#include "engine/cpu/dot.h"

const rows_steps *rows_steps_of(cpu_isa isa) {
    return CPU_STEPS(rows, isa);
}

#define ROWS_OF_A_JOB 4u

static void some_rows(void *context, size_t index, uint32_t worker) {
    const rows_work *w = context;
    uint32_t begin = (uint32_t)index * ROWS_OF_A_JOB;
    uint32_t end = w->rows - begin < ROWS_OF_A_JOB ? w->rows : begin + ROWS_OF_A_JOB;
    for (uint32_t row = begin; row < end; row++)
        w->one(w, row, worker);
}

void rows_run(rows_work *w, uint64_t elements) {
    size_t jobs = (w->rows + ROWS_OF_A_JOB - 1) / ROWS_OF_A_JOB;
    dot_run(w->d, jobs, w->rows * elements, some_rows, w);
}
