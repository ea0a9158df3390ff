# SPDX-License-Identifier: Apache-2.0
# The sidecar's image: the program, the shim, the libcupti versions that the shim may choose from, and nothing else: no
# shell, no package manager, no certificates. Runs as uid 65532.
#
#   podman build -t pillion:latest .            (docker build does as well)
#
# Arguments:
#   CUDA_IMAGE      where libcupti comes from: an image of NVIDIA's, or any that has /usr/local/cuda-VERSION
#   CUPTI_VERSIONS  CUDA toolkit versions whose libcupti goes in; the shim takes the newest that the driver can serve.
#                   "" puts none in (then CUDA_IMAGE may be any Debian): the workload must bring its own
#   BUNDLE          a ready bundle in the build context (build/release/bundle, made on Debian 12): nothing is compiled
#   NODE_EXTRA_CA_CERTS  certificates (a path in the build's container, from --volume) for a machine that reaches npm's
#                   registry through a proxy with one of its own: the page's packages come from there
ARG CUDA_IMAGE=docker.io/nvidia/cuda:13.0.1-base-ubuntu22.04

FROM ${CUDA_IMAGE} AS cupti
ARG CUPTI_VERSIONS="13.0 12.9 12.8 11.8"
COPY scripts/image_cupti /usr/local/bin/
RUN image_cupti /cupti ${CUPTI_VERSIONS}

FROM docker.io/library/debian:bookworm AS builder
ARG BUNDLE=""
ARG NODE_EXTRA_CA_CERTS=""
WORKDIR /src
COPY scripts/setup scripts/
RUN if [ -z "${BUNDLE}" ]; then scripts/setup build && apt-get clean; fi
COPY . .
RUN --mount=type=cache,target=/root/.cache/ccache \
    if [ -z "${BUNDLE}" ]; then scripts/build release pillion libpillion.so && scripts/bundle build/release; fi
COPY --from=cupti /cupti /cupti
RUN scripts/image_root "${BUNDLE:-build/release/bundle}" /cupti /image

FROM scratch
COPY --from=builder /image/ /
ENV PATH=/usr/lib/pillion
USER 65532:65532
EXPOSE 7070
ENTRYPOINT ["pillion"]
