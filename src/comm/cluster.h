// A cluster as the table `cluster` of an experiment describes it.
//
//   [cluster]
//   host = {gflops = 1500, jitter = 0.05}
//   links = {ranks-per-node = 4, inside = {topology = "nvlink-ring"}, between = {bandwidth-mb-s = 125}}
#pragma once

#include "comm/host_model.h"
#include "comm/link_model.h"

namespace antiphon::comm {

struct ClusterOptions {
  HostOptions host;
  LinkOptions links;
  template <class V>
  void Visit(V& v) {
    v.Group("host", host);
    v.Group("links", links);
  }
};

}  // namespace antiphon::comm
