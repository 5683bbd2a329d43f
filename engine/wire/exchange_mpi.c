#include "engine/wire/exchange_mpi.h"

tf_status exchange_mpi_open(const exchange_settings *settings, exchange **ends, uint32_t *count,
                            tf_error *err) {
    (void)settings;
    (void)ends;
    (void)count;
    tf_fail(err, TF_W_EXCHANGE_MISSING, "opening the exchange mpi");
    tf_found(err, "a build without MPI");
    return tf_remedy(err, "apt-get install libopenmpi-dev openmpi-bin, then build again");
}
