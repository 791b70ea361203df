#!/usr/bin/env bash
# Write deploy/kustomize/pratique.yaml: what the Helm chart renders, so that both install the same.
#
#   scripts/render_kustomization.sh          after a change of the chart; needs Helm (make helm)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

helm=${HELM:-helm}
trap 'rm -f deploy/kustomize/pratique.yaml.new' EXIT
{
  echo "# Generated from deploy/helm/pratique by scripts/render_kustomization.sh; change the chart, not this file."
  "$helm" template pratique deploy/helm/pratique --namespace pratique --kube-version 1.37.0 --no-hooks \
    --values deploy/kustomize/values.yaml
} >deploy/kustomize/pratique.yaml.new
mv deploy/kustomize/pratique.yaml.new deploy/kustomize/pratique.yaml
