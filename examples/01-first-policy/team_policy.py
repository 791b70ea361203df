"""A policy that refuses Pods nobody owns, and one that labels what it lets through."""

from pratique import Answer, Review, allow, deny, member, mutator, patch, rule, validator


@validator("RequireTeam", rule("pods"))
def require_team(review: Review) -> Answer:
    """Refuses Pods that do not say which team owns them."""
    if member(review.object, "metadata", "labels", "team"):
        return allow()
    return deny("label team is missing: say who is to be called at night")


@mutator("CostCentre", rule("pods"))
def cost_centre(review: Review) -> Answer:
    """Labels Pods with the cost centre of their team."""
    labels = member(review.object, "metadata", "labels") or {}
    if "team" not in labels or "cost-centre" in labels:
        return allow()
    metadata = review.object["metadata"] | {"labels": labels | {"cost-centre": f"cc-{labels['team']}"}}
    return patch(review.object | {"metadata": metadata})
