"""A policy that denies Pods without an owner, and one that labels Pods with a cost centre."""

from pratique import Answer, Review, allow, deny, member, mutator, patch, rule, validator


@validator("RequireTeam", rule("pods"))
def require_team(review: Review) -> Answer:
    """Denies Pods without a team label."""
    if member(review.object, "metadata", "labels", "team"):
        return allow()
    return deny("label team is missing: say who is to be called at night")


@mutator("CostCentre", rule("pods"))
def cost_centre(review: Review) -> Answer:
    """Adds the label of the team's cost centre."""
    labels = member(review.object, "metadata", "labels") or {}
    if "team" not in labels or "cost-centre" in labels:
        return allow()
    metadata = review.object["metadata"] | {"labels": labels | {"cost-centre": f"cc-{labels['team']}"}}
    return patch(review.object | {"metadata": metadata})
