//! Five captions of a scene.
//!
//! Captions differ in the order of the objects, in the properties that they mention, in positions (in the image or
//! relative to each other), in the background and in the wording. All captions are true.

use super::scene::{ObjectGroup, ObjectSize, Scene};
use super::shapes::{Background, Colour, ObjectShape};
use pairloom_kernels::random::Rng;

/// Writes five captions of `scene`, in random order.
pub(super) fn captions(scene: &Scene) -> [String; 5] {
    let mut writer = CaptionWriter { scene, rng: scene.caption_rng.clone() };
    let mut texts = [
        writer.list_objects(),
        writer.relate_objects(),
        writer.locate_objects(),
        writer.start_with_background(),
        writer.describe_briefly(),
    ]
    .map(|text| sentence(&text));
    writer.rng.shuffle(&mut texts);
    texts
}

/// Writer of the captions of a scene.
struct CaptionWriter<'s> {
    scene: &'s Scene,
    rng: Rng,
}

impl<'s> CaptionWriter<'s> {
    /// Caption that lists all objects: "a big red ball, two small fish and a green tree in the snow".
    fn list_objects(&mut self) -> String {
        let groups = self.shuffled();
        let parts: Vec<String> = groups.iter().map(|group| self.full_phrase(group)).collect();
        let opening = self.pick(&["", "", there_is(groups[0]), "a picture of", "here we see"]);
        format!("{opening} {} {}", join_with_and(&parts), self.background_phrase())
    }

    /// Caption with spatial relations: "a red ball is to the left of two small fish, and a green tree is above the
    /// ball".
    fn relate_objects(&mut self) -> String {
        let groups = self.shuffled();
        let first = self.full_phrase(groups[0]);
        let verb = self.verb(groups[0]);
        let relation = self.relation(groups[0], groups[1]);
        let second = self.full_phrase(groups[1]);
        let mut text = format!("{first} {verb} {relation} {second}");
        if let Some(third) = groups.get(2) {
            let (verb, other) = (self.verb(third), groups[self.rng.uniform_below(2)]);
            let relation = self.relation(third, other);
            text = format!("{text}, and {} {verb} {relation} {}", self.full_phrase(third), self.definite_phrase(other));
        }
        text
    }

    /// Caption with positions: "a red ball in the upper left, two small fish at the bottom".
    fn locate_objects(&mut self) -> String {
        let groups = self.shuffled();
        let brief = self.rng.uniform_below(2) == 0;
        let parts: Vec<String> = groups
            .iter()
            .map(|group| {
                let name = if brief { self.brief_phrase(group) } else { self.full_phrase(group) };
                format!("{name} {}", self.position(group))
            })
            .collect();
        match self.rng.uniform_below(3) {
            0 => format!("{} {}", there_is(groups[0]), join_with_and(&parts)),
            1 => format!("{} {}", join_with_and(&parts), self.background_phrase()),
            _ => parts.join(", "),
        }
    }

    /// Caption that starts with the background: "in the snow, a big ball sits above two small fish".
    fn start_with_background(&mut self) -> String {
        let groups = self.shuffled();
        let background = self.background_phrase();
        let (first, second) = (self.full_phrase(groups[0]), self.brief_phrase(groups[1]));
        let (verb, relation) = (self.verb(groups[0]), self.relation(groups[0], groups[1]));
        let text = format!("{background}, {first} {verb} {relation} {second}");
        match groups.get(2) {
            Some(third) => {
                let link = self.pick(&["with", "together with", "and also"]);
                format!("{text}, {link} {}", self.brief_phrase(third))
            }
            None => text,
        }
    }

    /// Short caption: "someone has put a red ball near two blue fish".
    fn describe_briefly(&mut self) -> String {
        let groups = self.shuffled();
        let (first, second) = (self.brief_phrase(groups[0]), self.brief_phrase(groups[1]));
        let third = groups.get(2).map(|third| self.brief_phrase(third));
        let background = self.background_phrase();
        let mut text = match self.rng.uniform_below(4) {
            0 => format!("{first} and {second}"),
            1 => format!("{first} with {second}"),
            2 => format!("someone has put {first} near {second}"),
            _ => format!("this shows {first} and {second}"),
        };
        if let Some(third) = third {
            text = format!("{text}, {} {third}", self.pick(&["also", "plus", "with"]));
        }
        if self.rng.uniform_below(2) == 0 { format!("{text} {background}") } else { text }
    }

    fn shuffled(&mut self) -> Vec<&'s ObjectGroup> {
        let mut groups: Vec<&ObjectGroup> = self.scene.groups.iter().collect();
        self.rng.shuffle(&mut groups);
        groups
    }

    fn pick<'w>(&mut self, words: &[&'w str]) -> &'w str {
        words[self.rng.uniform_below(words.len())]
    }

    /// Noun phrase with size, colour and number.
    fn full_phrase(&mut self, group: &ObjectGroup) -> String {
        let size = self.pick(size_words(group.size));
        let colour = self.colour(group);
        let noun = self.noun(group);
        if group.size == ObjectSize::Medium && self.rng.uniform_below(2) == 0 {
            return with_number(group, &[colour, noun]);
        }
        with_number(group, &[size, colour, noun])
    }

    /// Noun phrase with colour and number.
    fn brief_phrase(&mut self, group: &ObjectGroup) -> String {
        let colour = self.colour(group);
        with_number(group, &[colour, self.noun(group)])
    }

    /// Definite noun phrase for objects that were named before.
    fn definite_phrase(&mut self, group: &ObjectGroup) -> String {
        let plural = if group.count > 1 { plural(self.noun(group)) } else { self.noun(group).to_owned() };
        if self.rng.uniform_below(2) == 0 {
            format!("the {} {plural}", self.colour(group))
        } else {
            format!("the {plural}")
        }
    }

    /// Word for the colour: mostly the usual one, sometimes a synonym.
    fn colour(&mut self, group: &ObjectGroup) -> &'static str {
        let words = colour_words(group.colour);
        if self.rng.uniform_below(4) == 0 { self.pick(words) } else { words[0] }
    }

    fn noun(&mut self, group: &ObjectGroup) -> &'static str {
        let words = nouns(group.shape);
        if self.rng.uniform_below(3) == 0 { self.pick(words) } else { words[0] }
    }

    fn verb(&mut self, group: &ObjectGroup) -> &'static str {
        self.pick(if group.count > 1 { &["are", "are", "sit"] } else { &["is", "is", "sits"] })
    }

    fn background_phrase(&mut self) -> &'static str {
        self.pick(background_phrases(self.scene.background))
    }

    /// Spatial relation of `a` to `b`, horizontal or vertical. If neither distance dominates, the direction is drawn.
    fn relation(&mut self, a: &ObjectGroup, b: &ObjectGroup) -> &'static str {
        let (dx, dy) = (a.x - b.x, a.y - b.y);
        let sideways = if dx.abs() > 1.5 * dy.abs() {
            true
        } else if dy.abs() > 1.5 * dx.abs() {
            false
        } else {
            self.rng.uniform_below(2) == 0
        };
        self.pick(match (sideways, dx < 0.0, dy < 0.0) {
            (true, true, _) => &["to the left of", "left of", "on the left side of"],
            (true, false, _) => &["to the right of", "right of", "on the right side of"],
            (false, _, true) => &["above", "above", "higher than"],
            (false, _, false) => &["below", "under", "lower than"],
        })
    }

    /// Position of a group in the image.
    fn position(&mut self, group: &ObjectGroup) -> &'static str {
        let third = |at: f64| if at < 0.4 { 0 } else { usize::from(at > 0.6) + 1 };
        self.pick(match (third(group.x), third(group.y)) {
            (0, 0) => &["in the upper left", "in the top left corner", "at the top left"],
            (1, 0) => &["at the top", "in the upper middle"],
            (2, 0) => &["in the upper right", "in the top right corner", "at the top right"],
            (0, 1) => &["on the left", "at the left edge"],
            (1, 1) => &["in the middle", "in the centre"],
            (2, 1) => &["on the right", "at the right edge"],
            (0, _) => &["in the lower left", "in the bottom left corner", "at the bottom left"],
            (1, _) => &["at the bottom", "in the lower middle"],
            (_, _) => &["in the lower right", "in the bottom right corner", "at the bottom right"],
        })
    }
}

fn there_is(group: &ObjectGroup) -> &'static str {
    if group.count > 1 { "there are" } else { "there is" }
}

/// Noun phrase with a number: "a red ball", "two red balls".
fn with_number(group: &ObjectGroup, words: &[&str]) -> String {
    let mut words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    let number = match group.count {
        1 if words[0].starts_with(['a', 'e', 'i', 'o', 'u']) => "an",
        1 => "a",
        2 => "two",
        _ => "three",
    };
    if group.count > 1
        && let Some(noun) = words.last_mut()
    {
        *noun = plural(noun);
    }
    format!("{number} {}", words.join(" "))
}

fn plural(noun: &str) -> String {
    match noun {
        "fish" => noun.to_owned(),
        _ if noun.ends_with(['s', 'x']) => format!("{noun}es"),
        _ => format!("{noun}s"),
    }
}

/// Enumeration: "a, b and c".
fn join_with_and(parts: &[String]) -> String {
    match parts {
        [] => String::new(),
        [one] => one.clone(),
        [most @ .., last] => format!("{} and {last}", most.join(", ")),
    }
}

/// Adds a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.trim_start().chars();
    let first = letters.next().into_iter().flat_map(char::to_uppercase);
    first.chain(letters).chain(['.']).collect()
}

fn size_words(size: ObjectSize) -> &'static [&'static str] {
    match size {
        ObjectSize::Small => &["small", "little", "tiny"],
        ObjectSize::Medium => &["medium-sized", "mid-sized"],
        ObjectSize::Large => &["large", "big", "huge"],
    }
}

fn colour_words(colour: Colour) -> &'static [&'static str] {
    match colour {
        Colour::Red => &["red", "bright red"],
        Colour::Orange => &["orange"],
        Colour::Yellow => &["yellow", "bright yellow"],
        Colour::Green => &["green", "dark green"],
        Colour::Blue => &["blue", "dark blue"],
        Colour::Purple => &["purple", "violet"],
        Colour::Pink => &["pink", "light pink"],
        Colour::Brown => &["brown", "dark brown"],
        Colour::Black => &["black"],
        Colour::White => &["white"],
        Colour::Grey => &["grey", "gray"],
    }
}

fn nouns(shape: ObjectShape) -> &'static [&'static str] {
    match shape {
        ObjectShape::Ball => &["ball", "sphere"],
        ObjectShape::Box => &["box", "parcel"],
        ObjectShape::Pyramid => &["pyramid", "triangle"],
        ObjectShape::Star => &["star", "five-pointed star"],
        ObjectShape::Heart => &["heart"],
        ObjectShape::Ring => &["ring", "hoop"],
        ObjectShape::Diamond => &["diamond", "gem"],
        ObjectShape::Cross => &["cross", "plus sign"],
        ObjectShape::Moon => &["moon", "crescent"],
        ObjectShape::House => &["house", "hut"],
        ObjectShape::Tree => &["tree"],
        ObjectShape::Flower => &["flower", "blossom"],
        ObjectShape::Fish => &["fish"],
        ObjectShape::Boat => &["boat", "sailing boat"],
        ObjectShape::Mushroom => &["mushroom", "toadstool"],
        ObjectShape::Cup => &["cup", "mug"],
    }
}

fn background_phrases(background: Background) -> &'static [&'static str] {
    match background {
        Background::Meadow => &["on green grass", "in a meadow", "on a lawn under a blue sky"],
        Background::Beach => &["on a sandy beach", "at the seaside", "on the sand by the sea"],
        Background::Night => &["at night", "under a starry sky", "in the dark of the night"],
        Background::Snow => &["in the snow", "on a snowy field", "in a white winter landscape"],
        Background::Sunset => &["at sunset", "in the evening light", "in front of an orange evening sky"],
        Background::Bricks => &["in front of a brick wall", "on a wall of bricks", "against red bricks"],
        Background::Wood => &["on a wooden table", "on wooden planks", "on a board of wood"],
        Background::Tiles => &["on a checkered floor", "on black and white tiles", "on a tiled floor"],
        Background::Water => &["in blue water", "on the waves", "in the middle of a lake"],
        Background::Paper => &["on white paper", "on a plain background", "on an empty page"],
    }
}
